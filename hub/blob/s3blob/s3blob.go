// Package s3blob stores artifacts in a bucket of S3 or of a server with the same interface.
//
//	var cfg s3blob.Config
//	err := cfg.UnmarshalText([]byte("s3://bucket/prefix?region=eu-central-1"))
//	cfg.AccessKeyID = id
//	cfg.SecretAccessKey = key
//	driver, err := s3blob.New(cfg)
//
// The server is trusted like the database: its responses are limited in time, and only the contents
// of blobs are streamed.
//
// The package does not read credentials or settings from the environment, from files or from the
// metadata service of a cloud. A caller that wants this sets Config.Credentials to a provider of
// the AWS SDK.
package s3blob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/internal/outbound"
)

// Config configures [New].
type Config struct {
	Bucket string // Required.
	Prefix string // of all keys, without slashes at its ends. Optional.
	Region string // Required.

	// Endpoint is the address of a server other than AWS, such as http://127.0.0.1:9000.
	Endpoint string

	// VirtualHost requests a bucket by host name instead of by path.
	VirtualHost bool

	AccessKeyID     string // Required, with SecretAccessKey, unless Credentials is set.
	SecretAccessKey string
	SessionToken    string // of temporary credentials. Optional.

	// Credentials returns the credentials of each request, as an aws.CredentialsCache does.
	Credentials aws.CredentialsProvider

	// Timeout is how long the server may take for a response, and for the next part of a download.
	// An upload has a second more for each 64 KiB. Defaults to 15 s.
	Timeout time.Duration
}

// UnmarshalText parses an address such as s3://bucket/prefix?region=eu-central-1. The query may
// also have endpoint, for a server other than AWS, and virtual_host=true for one that requires the
// bucket in the host name. The region defaults to us-east-1 with an endpoint. Credentials are not
// part of the address.
func (c *Config) UnmarshalText(address []byte) error {
	u, err := url.Parse(string(address))
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.Fragment != "" {
		return errors.New("it is not an address like s3://bucket/prefix?region=eu-central-1") // without the address: it may have a secret
	}

	if u.User != nil {
		return errors.New("it must not have credentials: use AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a role")
	}

	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return errors.New("its query cannot be parsed")
	}

	for name, values := range query {
		if name != "region" && name != "endpoint" && name != "virtual_host" || len(values) != 1 {
			return fmt.Errorf("parameter %q: the parameters are region, endpoint and virtual_host, each once", name)
		}
	}

	cfg := Config{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/"), Region: query.Get("region"), Endpoint: query.Get("endpoint")}
	switch query.Get("virtual_host") {
	case "", "false":
	case "true":
		cfg.VirtualHost = true
	default:
		return errors.New("virtual_host is neither true nor false")
	}

	if cfg.Endpoint == "" {
		if cfg.Region == "" {
			return errors.New("it has no region: add ?region=eu-central-1")
		}

		*c = cfg
		return nil
	}

	e, err := url.Parse(cfg.Endpoint)
	if err != nil || e.Scheme != "http" && e.Scheme != "https" || e.Host == "" || e.User != nil || strings.Trim(e.Path, "/") != "" || e.RawQuery != "" || e.Fragment != "" {
		return errors.New("the endpoint is not an address like https://s3.example.com")
	}

	cfg.Region = cmp.Or(cfg.Region, "us-east-1")
	*c = cfg
	return nil
}

// bytesPerSecond is the slowest upload.
const bytesPerSecond = 64 << 10

// Driver is a bucket. It is safe for concurrent use. The bucket needs the permissions GetObject,
// PutObject, DeleteObject and ListBucket.
type Driver struct {
	cfg       Config
	client    *s3.Client
	presign   *s3.PresignClient
	transport *http.Transport
}

// New returns a driver. It sends no request.
func New(cfg Config) (*Driver, error) {
	cfg.Timeout = cmp.Or(cfg.Timeout, 15*time.Second)
	switch {
	case cfg.Bucket == "" || cfg.Region == "":
		return nil, errors.New("open bucket: it needs a name and a region")
	case cfg.Credentials == nil && (cfg.AccessKeyID == "" || cfg.SecretAccessKey == ""):
		return nil, errors.New("open bucket: it needs an access key id and a secret access key, or a provider of credentials")
	}

	if cfg.Prefix != "" {
		cfg.Prefix = strings.Trim(cfg.Prefix, "/") + "/"
	}

	if cfg.Credentials == nil {
		static := aws.Credentials{AccessKeyID: cfg.AccessKeyID, SecretAccessKey: cfg.SecretAccessKey, SessionToken: cfg.SessionToken}
		cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return static, nil })
	}

	d := &Driver{cfg: cfg, transport: outbound.Transport()}
	options := s3.Options{
		Region:                     cfg.Region,
		Credentials:                cfg.Credentials,
		HTTPClient:                 &http.Client{Transport: d.transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		UsePathStyle:               !cfg.VirtualHost,
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired, // servers other than AWS lack the others
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxBackoff = time.Second
			// A conflict with another request that is in progress.
			o.Retryables = append(o.Retryables, retry.RetryableHTTPStatusCode{Codes: map[int]struct{}{http.StatusConflict: {}}})
		}),
	}
	if cfg.Endpoint != "" {
		options.BaseEndpoint = &cfg.Endpoint
	}

	d.client = s3.New(options)
	d.presign = s3.NewPresignClient(d.client)
	return d, nil
}

// Close closes idle connections.
func (d *Driver) Close() error {
	d.transport.CloseIdleConnections()
	return nil
}

// Check returns an error if the bucket does not exist or cannot be accessed.
func (d *Driver) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	_, err := d.client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &d.cfg.Bucket})
	if err != nil {
		return fmt.Errorf("find bucket %s: %w", d.cfg.Bucket, err)
	}

	return nil
}

func (d *Driver) key(key string) *string { return aws.String(d.cfg.Prefix + key) }

// Put implements [blob.Driver]. It replaces an existing object, because its new time of
// modification protects it from the sweep.
func (d *Driver) Put(ctx context.Context, key string, content io.ReadSeeker, size int64) error {
	// A server may store a body that is shorter than its Content-Length.
	at, err := content.Seek(0, io.SeekCurrent)
	end := int64(0)
	if err == nil {
		end, err = content.Seek(0, io.SeekEnd)
	}

	if err == nil && end-at != size {
		err = fmt.Errorf("the content has %d bytes, not %d: %w", end-at, size, io.ErrUnexpectedEOF)
	}

	if err == nil {
		_, err = content.Seek(at, io.SeekStart)
	}

	if err != nil {
		return fmt.Errorf("measure content: %w", err)
	}

	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout+time.Duration(size/bytesPerSecond)*time.Second)
	defer cancel()
	_, err = d.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &d.cfg.Bucket, Key: d.key(key), Body: content, ContentLength: &size,
		CacheControl: aws.String("max-age=31536000, immutable"), ContentDisposition: aws.String("attachment"), ContentType: aws.String("application/octet-stream"),
	})
	return known(err)
}

// Stat implements [blob.Driver].
func (d *Driver) Stat(ctx context.Context, key string) (blob.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	out, err := d.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &d.cfg.Bucket, Key: d.key(key)})
	if err != nil {
		return blob.Info{}, known(err)
	}

	return blob.Info{Key: key, Size: aws.ToInt64(out.ContentLength), Modified: aws.ToTime(out.LastModified)}, nil
}

// Open implements [blob.Driver]. The content is requested with the first read after a seek.
func (d *Driver) Open(ctx context.Context, key string) (*blob.Blob, error) {
	info, err := d.Stat(ctx, key)
	if err != nil {
		return nil, err
	}

	return &blob.Blob{Info: info, Content: &object{driver: d, ctx: ctx, key: key, size: info.Size}}, nil
}

// Delete implements [blob.Driver]. S3 has no condition on the time of modification: an object
// that is put again between the two requests is deleted.
func (d *Driver) Delete(ctx context.Context, key string, unmodifiedSince time.Time) error {
	info, err := d.Stat(ctx, key)
	if errors.Is(err, blob.ErrNotExist) || err == nil && !info.Modified.Before(unmodifiedSince) {
		return nil
	}

	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	_, err = d.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &d.cfg.Bucket, Key: d.key(key)})
	return known(err)
}

// List implements [blob.Driver].
func (d *Driver) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		pages := s3.NewListObjectsV2Paginator(d.client, &s3.ListObjectsV2Input{Bucket: &d.cfg.Bucket, Prefix: d.key(prefix)})
		for pages.HasMorePages() {
			pageCtx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
			page, err := pages.NextPage(pageCtx)
			cancel()
			if err != nil {
				yield(blob.Info{}, known(err))
				return
			}

			for _, o := range page.Contents {
				key := strings.TrimPrefix(aws.ToString(o.Key), d.cfg.Prefix)
				if !yield(blob.Info{Key: key, Size: aws.ToInt64(o.Size), Modified: aws.ToTime(o.LastModified)}, nil) {
					return
				}
			}
		}
	}
}

// Link implements [blob.Driver] with a presigned address of the server. The server ends the
// link at the same time if its clock is correct.
func (d *Driver) Link(ctx context.Context, key string, expires time.Time) (string, error) {
	request, err := d.presign.PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &d.cfg.Bucket, Key: d.key(key)},
		s3.WithPresignExpires(max(time.Second, time.Until(expires))))
	if err != nil {
		return "", fmt.Errorf("presign link: %w", err)
	}

	return request.URL, nil
}

// known adds the errors of drivers to those of the server.
func known(err error) error {
	if err == nil {
		return nil
	}

	code, status := "", 0
	if failed, ok := errors.AsType[smithy.APIError](err); ok {
		code = failed.ErrorCode()
	}

	if response, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		status = response.HTTPStatusCode()
	}

	switch {
	case code == "NoSuchKey" || code == "NotFound": // others with status 404 are about the bucket or the credentials
		return fmt.Errorf("%w: %w", blob.ErrNotExist, err)
	case status == http.StatusInsufficientStorage, code == "QuotaExceeded", code == "XMinioStorageFull":
		return fmt.Errorf("%w: %w", blob.ErrFull, err)
	}

	return err
}
