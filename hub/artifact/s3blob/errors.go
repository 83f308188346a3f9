package s3blob

import (
	"errors"
	"fmt"
	"net/http"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/seed93082962/agenthost/hub/artifact"
)

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
		return fmt.Errorf("%w: %w", artifact.ErrNotExist, err)
	case status == http.StatusInsufficientStorage, code == "QuotaExceeded", code == "XMinioStorageFull":
		return fmt.Errorf("%w: %w", artifact.ErrFull, err)
	}
	return err
}
