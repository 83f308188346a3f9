package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// maxText bounds the characters of a message of the cluster.
const maxText = 1000

var errTimeout = errors.New("the Kubernetes API server does not respond")

// errChanged reports that another call has changed the deployment: its state is read again.
var errChanged = errors.New("another call changes the deployment")

// fault returns an error for the user. It is a deploy.ErrUnavailable unless the API server has
// rejected the call.
func fault(ctx context.Context, what string, err error) error {
	code := statusCode(err)
	switch {
	case err == nil, errors.Is(err, errChanged):
		return err
	case errors.Is(context.Cause(ctx), errTimeout):
		return fmt.Errorf("%s: %w: %w", what, deploy.ErrUnavailable, errTimeout)
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	case code == 0:
		return fmt.Errorf("%s: %w: the Kubernetes API server cannot be reached", what, deploy.ErrUnavailable)
	case code >= http.StatusInternalServerError || code == http.StatusTooManyRequests:
		return fmt.Errorf("%s: %w: %s", what, deploy.ErrUnavailable, short(err.Error()))
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the Kubernetes API server rejects the credentials of the hub", what)
	}

	return fmt.Errorf("%s: %s", what, short(err.Error()))
}

// short returns the beginning of a text of the cluster.
func short(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "")
}

// gone reports whether the API server has no such object.
func gone(err error) bool { return apierrors.IsNotFound(err) }

// moved returns errChanged for a write whose precondition no longer holds.
func moved(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("%w: %s", errChanged, short(err.Error()))
	}

	return err
}

// statusCode returns the HTTP status of an error of the API server, or 0.
func statusCode(err error) int32 {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code
	}

	return 0
}
