package natsbus

import (
	"errors"
	"fmt"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// Issuer issues credentials of a NATS account for the scopes of a bucket: the server rejects what a
// user publishes outside of its scope.
type Issuer struct {
	bucket, account string
	signer          nkeys.KeyPair
}

// NewIssuer returns an issuer for a bucket. The seed is that of the account or of a signing key of
// the account, whose public key account is then. The bucket must exist before the users connect.
func NewIssuer(seed []byte, account, bucket string) (*Issuer, error) {
	signer, err := nkeys.ParseDecoratedNKey(seed)
	if err != nil {
		return nil, errors.New("the seed of the NATS account is malformed")
	}

	public, err := signer.PublicKey()
	if err != nil || !nkeys.IsValidPublicAccountKey(public) {
		return nil, errors.New("the seed is not one of a NATS account: it begins with SA")
	}

	if account == "" {
		account = public
	}

	if !nkeys.IsValidPublicAccountKey(account) || !bucketName().MatchString(bucket) {
		return nil, errors.New("the public key of the NATS account, or the bucket, is malformed")
	}

	return &Issuer{bucket: bucket, account: account, signer: signer}, nil
}

// Credentials returns the content of a credentials file for a scope, with a new key. They are valid
// until the account revokes them.
//
// Permissions are by subject. A user reads the states of runs with a request that has the subject
// in its body: it can list and read those of other scopes, which have random ids of runs and
// replicas. The responses of the server have no permissions: a user that names the entry of another
// run as the subject of a response replaces it. That is no cancel. The owner of the run stores the
// entry again within seconds, and other replicas cannot cancel the run until then. Use an account
// for each runtime if they attack each other.
func (i *Issuer) Credentials(scope string) ([]byte, error) {
	if !bucketName().MatchString(scope) {
		return nil, errors.New("issue credentials: the scope is malformed")
	}

	user, err := nkeys.CreateUser()
	if err != nil {
		return nil, fmt.Errorf("issue credentials: %w", err)
	}

	public, err := user.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("issue credentials: %w", err)
	}

	part := i.bucket + "." + scope + ".>"
	claims := jwt.NewUserClaims(public)
	claims.Name = scope
	if signer, err := i.signer.PublicKey(); err != nil || signer != i.account {
		claims.IssuerAccount = i.account
	}

	claims.Sub.Allow.Add("agenthost."+part, "_INBOX."+part)
	claims.Pub.Allow.Add("agenthost."+part, "_INBOX."+part, "$KV."+part,
		"$JS.API.STREAM.INFO.KV_"+i.bucket, "$JS.API.STREAM.MSG.GET.KV_"+i.bucket)
	text, err := claims.Encode(i.signer)
	if err != nil {
		return nil, fmt.Errorf("issue credentials: %w", err)
	}

	seed, err := user.Seed()
	if err != nil {
		return nil, fmt.Errorf("issue credentials: %w", err)
	}

	file, err := jwt.FormatUserConfig(text, seed)
	if err != nil {
		return nil, fmt.Errorf("issue credentials: %w", err)
	}

	return file, nil
}
