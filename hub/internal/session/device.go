package session

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

const (
	devicePurpose = "device token"

	maxDevices       = 8 // accounts of a browser
	deviceSeparator  = "~"
	maxDeviceTokens  = 4096 // bytes
	maxDevicePayload = 512
)

// device is the content of a device token: a browser or program on which a user has signed in. It
// permits nothing. An attempt to sign in with it has a budget of its own.
type device struct {
	TenantID string `json:"t"`
	UserID   string `json:"u"`
	ID       string `json:"d"`
	Epoch    int64  `json:"e"` // user.User.DeviceEpoch
}

// deviceToken returns the device token of a user.
func (s *Service) deviceToken(u user.User, id string) (string, error) {
	payload, err := json.Marshal(device{TenantID: u.TenantID, UserID: u.ID, ID: id, Epoch: u.DeviceEpoch})
	if err != nil {
		return "", fmt.Errorf("create device token: %w", err)
	}

	return encodeDevice(payload) + "." + encodeDevice(s.store.Keyring.MAC(devicePurpose, payload)), nil
}

func encodeDevice(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// openDevice returns the content of a device token, and reports whether a hub signed it.
func (s *Service) openDevice(token string) (device, bool) {
	encoded, signature, _ := strings.Cut(token, ".")
	payload, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(payload) > maxDevicePayload {
		return device{}, false
	}

	mac, err := base64.RawURLEncoding.Strict().DecodeString(signature)
	if err != nil || !s.store.Keyring.VerifyMAC(devicePurpose, payload, mac) {
		return device{}, false
	}

	var d device
	ok := jsonlimit.Unmarshal(payload, &d) == nil
	return d, ok
}

// deviceTokens returns the device tokens of a browser.
func deviceTokens(held string) []string {
	if held == "" || len(held) > maxDeviceTokens {
		return nil
	}

	all := strings.Split(held, deviceSeparator)
	return all[:min(len(all), maxDevices)]
}

// deviceOf returns the id of the device in the tokens whose user is the wanted one, or "". The work
// depends only on the tokens, not on the name of a login.
func (s *Service) deviceOf(ctx context.Context, held string, wanted func(user.User) bool) (string, error) {
	var id string
	for _, token := range deviceTokens(held) {
		d, ok := s.openDevice(token)
		if !ok {
			continue
		}

		u, err := user.ByID(ctx, s.store.Read(), d.TenantID, d.UserID)
		if errors.Is(err, user.ErrNone) {
			continue
		}

		if err != nil {
			return "", err
		}

		if u.DeviceEpoch == d.Epoch && wanted(u) {
			id = d.ID
		}
	}

	return id, nil
}

// AddDevice returns the device tokens that a browser holds with a new one, which replaces the
// former one of the user.
func (s *Service) AddDevice(held, token string) string {
	added, ok := s.openDevice(token)
	if !ok {
		return held
	}

	others := slices.DeleteFunc(deviceTokens(held), func(token string) bool {
		d, ok := s.openDevice(token)
		return !ok || d.UserID == added.UserID
	})
	all := append([]string{token}, others...)
	return strings.Join(all[:min(len(all), maxDevices)], deviceSeparator)
}
