// Package secret seals what a server has to keep but a reader of its database must not read: provider keys, client
// secrets, signing keys.
//
// A [Keyring] holds one or more keys of 32 bytes. The first seals, all of them open, so that a new key can be put before
// the old one and everything sealed anew ([Keyring.Stale] finds what is left) before the old one goes. What is sealed is
// bound to its place: [AAD] names table, column and row, and a sealed value that was copied to another row does not open.
//
//	ring, err := secret.Parse(settings.EncryptionKey) // base64, comma separated
//	sealed := ring.Seal(apiKey, secret.AAD("providers", "api_key_enc", id))
//	apiKey, err := ring.Open(sealed, secret.AAD("providers", "api_key_enc", id))
//
// Sealed values are AES-256-GCM with a random nonce:
//
//	version (1 byte, 1) | key id (8 bytes) | nonce (12 bytes) | ciphertext | tag (16 bytes)
//
// The key id is the start of a hash of the key, and tells nothing of it. Version and key id are authenticated with the
// associated data. A random nonce of 96 bits is good for 2^32 seals under one key, which is one a second for 136 years.
//
// No key is ever printed: not by fmt with any verb, nor by encoding/json or log/slog, nor in an error.
package secret
