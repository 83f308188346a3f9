// Package secret encrypts values that a server must store and that a reader of its database must
// not see: provider keys, client secrets, signing keys.
//
// A [Keyring] has one or more keys of 32 bytes. The first one encrypts, all of them decrypt. To
// replace a key, the new key is put before the old one, all values are encrypted again
// with [Keyring.Reseal], and the old key is removed. A sealed value is bound to its place: [AAD]
// identifies table, column and row, and other values of the row such as its tenant. A value that
// was copied to another row, or whose row has another tenant now, cannot be decrypted.
//
//	ring, err := secret.Parse(keys...) // base64
//	sealed := ring.Seal(apiKey, secret.AAD("clients", "secret_enc", id, tenantID))
//	apiKey, err := ring.Open(sealed, secret.AAD("clients", "secret_enc", id, tenantID))
//
// Sealed values are AES-256-GCM with a random nonce:
//
//	version (1 byte, 1) | key id (8 bytes) | nonce (12 bytes) | ciphertext | tag (16 bytes)
//
// The key id is the start of a hash of the key and does not reveal the key. Version and key id are
// authenticated with the associated data. A random nonce of 96 bits is safe for 2^32 values under
// one key: one each second for 136 years.
//
// Keys are never printed: not by fmt with any verb, not by encoding/json or log/slog, and not in an
// error.
package secret
