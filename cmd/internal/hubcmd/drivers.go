package hubcmd

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/cmd/internal/runtimecmd"
	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/deploy"
)

// Drivers are what not every program links. A nil one is a fault of the settings that need it.
type Drivers struct {
	// Docker and Kubernetes are the values of DEPLOYER, and Bucket that of BLOB_URL=s3://...
	// They add the faults of their settings.
	Docker, Kubernetes func(*Settings) OpenDeployer
	Bucket             func(*Settings) OpenBlobs

	runtimecmd.Drivers
}

type (
	// OpenDeployer opens the driver of a platform.
	OpenDeployer func(*slog.Logger) (deploy.Driver, error)
	// OpenBlobs opens a store of files.
	OpenBlobs func(context.Context, *slog.Logger) (Blobs, error)
)

// Blobs is a driver that the command closes.
type Blobs interface {
	blob.Driver
	io.Closer
}

// platform prepares a driver. It adds the faults of its settings.
func (s *Settings) platform(prepare func(*Settings) OpenDeployer) OpenDeployer {
	if prepare == nil {
		s.Fault(&s.Deployer, daemon.Elsewhere)
		return func(*slog.Logger) (deploy.Driver, error) { return nil, errors.New(daemon.Elsewhere) }
	}

	return prepare(s)
}

// bucket prepares the driver of BLOB_URL, and returns nil for a directory. It adds the faults of
// its settings.
func (s *Settings) bucket() OpenBlobs {
	_, ok := s.blobDir()
	switch {
	case ok:
		return nil
	case !strings.HasPrefix(s.BlobURL, "s3://"):
		s.Fault(&s.BlobURL, "it is neither file://PATH nor s3://BUCKET/PREFIX?region=REGION")
	case s.drivers.Bucket == nil:
		s.Fault(&s.BlobURL, daemon.Elsewhere)
	default:
		return s.drivers.Bucket(s)
	}

	return nil
}

// openBlobs opens the store of files of valid settings.
func (s *Settings) openBlobs(ctx context.Context, log *slog.Logger) (Blobs, error) {
	if path, ok := s.blobDir(); ok {
		return blob.OpenFolder(path)
	}

	return s.bucket()(ctx, log)
}
