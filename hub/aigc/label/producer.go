package label

import (
	"errors"
	"fmt"
	"strings"
)

// usccDigits are the characters of a unified social credit code by their value: GB 32100-2015
// leaves out I, O, S, V and Z.
const usccDigits = "0123456789ABCDEFGHJKLMNPQRTUWXY"

// CheckUSCC returns an error unless code is a unified social credit code: 18 characters of GB
// 32100-2015, of which the last is the check digit (modulo 31, weights 3^i). Letters are upper
// case.
func CheckUSCC(code string) error {
	if len(code) != 18 {
		return fmt.Errorf("unified social credit code: has %d characters, must have 18", len(code))
	}
	sum, weight := 0, 1
	for i := range 17 {
		value := strings.IndexByte(usccDigits, code[i])
		if value < 0 {
			return fmt.Errorf("unified social credit code: character %d must be a digit or an upper-case letter other than I, O, S, V, Z", i+1)
		}
		sum += value * weight
		weight = weight * 3 % 31
	}
	if want := usccDigits[(31-sum%31)%31]; code[17] != want {
		return errors.New("unified social credit code: the check digit (the last character) does not match")
	}
	return nil
}

// Positions of a producer code.
const (
	producerLength = 27
	usccStart      = 4
	usccEnd        = 22
)

// CheckProducer returns an error unless code identifies a producer or propagator of generated
// content. It has 27 characters:
//
//	00 | 1 | 1 | unified social credit code (18) | 1 or 2 | 4 digits or upper-case letters
func CheckProducer(code string) error {
	switch {
	case len(code) != producerLength:
		return fmt.Errorf("content producer: has %d characters, must have %d", len(code), producerLength)
	case code[:usccStart] != "0011":
		return errors.New("content producer: must begin with 0011")
	case code[usccEnd] != '1' && code[usccEnd] != '2':
		return errors.New("content producer: character 23 must be 1 or 2")
	case strings.Trim(code[usccEnd+1:], "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "":
		return errors.New("content producer: the last 4 characters must be digits or upper-case letters")
	}
	if err := CheckUSCC(code[usccStart:usccEnd]); err != nil {
		return fmt.Errorf("content producer: %w", err)
	}
	return nil
}

// ProducerUSCC returns the unified social credit code in a producer code that [CheckProducer]
// accepts.
func ProducerUSCC(code string) string {
	if len(code) != producerLength {
		return ""
	}
	return code[usccStart:usccEnd]
}
