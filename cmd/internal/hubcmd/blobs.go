package hubcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/artifact"
	"github.com/seed93082962/agenthost/hub/artifact/s3blob"
	"github.com/seed93082962/agenthost/runtime/tool/js"
)

// blobs is a driver that the command closes.
type blobs interface {
	artifact.Driver
	io.Closer
}

// credentialsTimeout bounds a request for temporary credentials.
const credentialsTimeout = 10 * time.Second

// openBlobs opens the store of files.
func (s *settings) openBlobs(ctx context.Context, log *slog.Logger) (blobs, error) {
	if s.BlobURL == "" {
		return artifact.OpenFolder(filepath.Join(s.DataDir, "blobs"))
	}
	if path, ok := strings.CutPrefix(s.BlobURL, "file://"); ok && path != "" {
		return artifact.OpenFolder(path)
	}
	cfg, err := s.bucket()
	if err != nil {
		return nil, err
	}
	if cfg.AccessKeyID == "" {
		// The standard chain: a profile of the shared files, a web identity, the role of a container
		// or a machine.
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

// bucket returns the settings of a bucket, or the zero value if files are in a directory.
func (s *settings) bucket() (cfg s3blob.Config, err error) {
	if path, ok := strings.CutPrefix(s.BlobURL, "file://"); s.BlobURL == "" || ok && path != "" {
		return cfg, nil
	}
	if !strings.HasPrefix(s.BlobURL, "s3://") {
		return cfg, errors.New("BLOB_URL is neither file://PATH nor s3://BUCKET/PREFIX?region=REGION")
	}
	if cfg, err = s3blob.ParseURL(s.BlobURL); err != nil {
		return cfg, fmt.Errorf("BLOB_URL: %w", err)
	}
	cfg.AccessKeyID, cfg.SecretAccessKey, cfg.SessionToken = s.AccessKeyID, s.SecretAccessKey, s.SessionToken
	if (cfg.AccessKeyID == "") != (cfg.SecretAccessKey == "") {
		return cfg, errors.New("BLOB_URL: a bucket needs both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or neither, for a role")
	}
	return cfg, nil
}

// artifactURL returns the address of OSS_CDN_HOST, or "" for the hub's own.
func (s *settings) artifactURL() (string, error) {
	if s.CDNHost == "" {
		return "", nil
	}
	address := s.CDNHost
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("OSS_CDN_HOST is not a host or a base URL such as https://cdn.example.com")
	}
	return strings.TrimRight(address, "/"), nil
}

// checkTool returns the name of the tool in a file. A worker parses the file: a
// process of this executable.
func checkTool(ctx context.Context, fileName, source string) (string, error) {
	name, err := js.NameOf(ctx, js.Config{}, fileName, source)
	if fault, ok := errors.AsType[*js.FileError](err); ok {
		return "", api.ArtifactInvalid.New("The file is not a tool: " + api.Plain(fault.Reason) + ".")
	}
	if err != nil && ctx.Err() == nil {
		return "", &api.Error{Code: api.Unavailable, Message: "The file cannot be checked now: the log of the hub has the reason.", Cause: err}
	}
	return name, err
}
