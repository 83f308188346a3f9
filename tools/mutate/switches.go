package main

// switches is the file that a package with mutants has in addition. The environment variable MUTANT
// has the id of the mutant that is on. MUTANT_SEEN names a file of one byte for each mutant, which
// becomes 1 if its place runs, in this process or in a child.
const switches = `package %s

import (
	"cmp"
	"os"
	"strconv"
	"syscall"
)

var mutantActive, _ = strconv.Atoi(os.Getenv("MUTANT"))

var mutantSeen = func() []byte {
	f, err := os.OpenFile(os.Getenv("MUTANT_SEEN"), os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	seen, _ := syscall.Mmap(int(f.Fd()), 0, %d, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	return seen
}()

func mutantOn(id int) bool {
	if mutantSeen != nil {
		mutantSeen[id] = 1
	}
	return id == mutantActive
}

type mutantInteger interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

type mutantNumber interface{ mutantInteger | ~float32 | ~float64 }

func mutantLogicalAnd(id int, a bool, b func() bool) bool {
	if mutantOn(id) {
		return a || b()
	}
	return a && b()
}

func mutantLogicalOr(id int, a bool, b func() bool) bool {
	if mutantOn(id) {
		return a && b()
	}
	return a || b()
}

func mutantPick[T any](id int, a, b T) T {
	if mutantOn(id) {
		return b
	}
	return a
}

func mutantLess[T cmp.Ordered](id int, a, b T) bool         { return mutantPick(id, a < b, a <= b) }
func mutantLessEqual[T cmp.Ordered](id int, a, b T) bool    { return mutantPick(id, a <= b, a < b) }
func mutantGreater[T cmp.Ordered](id int, a, b T) bool      { return mutantPick(id, a > b, a >= b) }
func mutantGreaterEqual[T cmp.Ordered](id int, a, b T) bool { return mutantPick(id, a >= b, a > b) }

func mutantInc[T mutantNumber](id int, a T) T    { return mutantPick(id, a, a+1) }
func mutantNegate[T mutantNumber](id int, a T) T { return mutantPick(id, a, -a) }
func mutantAdd[T mutantNumber](id int, a, b T) T { return mutantPick(id, a+b, a-b) }
func mutantSub[T mutantNumber](id int, a, b T) T { return mutantPick(id, a-b, a+b) }
func mutantAnd[T mutantInteger](id int, a, b T) T { return mutantPick(id, a&b, a|b) }
func mutantOr[T mutantInteger](id int, a, b T) T  { return mutantPick(id, a|b, a&b) }

func mutantMul[T mutantNumber](id int, a, b T) T {
	if mutantOn(id) {
		return a / b
	}
	return a * b
}

func mutantQuo[T mutantNumber](id int, a, b T) T {
	if mutantOn(id) {
		return a * b
	}
	return a / b
}

func mutantShl[T, N mutantInteger](id int, a T, n N) T { return mutantPick(id, a<<n, a>>n) }
func mutantShr[T, N mutantInteger](id int, a T, n N) T { return mutantPick(id, a>>n, a<<n) }
`
