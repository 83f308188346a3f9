package drivers

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/seed93082962/agenthost/cmd/internal/hubcmd"
	"github.com/seed93082962/agenthost/hub/blob/s3blob"
)

// credentialsTimeout bounds a request for temporary credentials.
const credentialsTimeout = 10 * time.Second

// openBucket prepares the driver of a bucket.
func openBucket(s *hubcmd.Settings) hubcmd.OpenBlobs {
	cfg := bucketConfig(s)
	return func(ctx context.Context, log *slog.Logger) (hubcmd.Blobs, error) {
		if cfg.AccessKeyID == "" {
			// The standard chain: a profile of the shared files, a web identity, the role of a
			// container or a machine.
			chain, err := config.LoadDefaultConfig(ctx, config.WithRegion(cfg.Region),
				config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(credentialsTimeout)))
			if err != nil {
				return nil, fmt.Errorf("BLOB_URL: find credentials: %w", err)
			}

			cfg.Credentials = chain.Credentials
		}

		driver, err := s3blob.New(cfg)
		if err != nil {
			return nil, fmt.Errorf("BLOB_URL: %w", err)
		}

		if err := driver.Check(ctx); err != nil { // it may be reachable later
			log.Warn("the bucket of BLOB_URL cannot be accessed", "err", err)
		}

		return driver, nil
	}
}

// bucketConfig returns the configuration of a bucket. It adds the faults of its settings.
func bucketConfig(s *hubcmd.Settings) s3blob.Config {
	var cfg s3blob.Config
	err := cfg.UnmarshalText([]byte(s.BlobURL))
	switch {
	case err != nil:
		s.Invalid(&s.BlobURL, err)
	case (s.AccessKeyID == "") != (s.SecretAccessKey == ""):
		s.Fault(&s.BlobURL, "a bucket needs both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or neither, for a role")
	}

	cfg.AccessKeyID, cfg.SecretAccessKey, cfg.SessionToken = s.AccessKeyID, s.SecretAccessKey, s.SessionToken
	return cfg
}
