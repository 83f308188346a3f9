package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	cerrdefs "github.com/containerd/errdefs"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// maxText bounds the characters of a message of the engine.
const maxText = 1000

var errTimeout = errors.New("the Docker engine does not respond")

// errChanged reports that another call has changed the deployment: its state is read again.
var errChanged = errors.New("another call changes the deployment")

// fault returns an error for the user, without paths of the machine. It is a deploy.ErrUnavailable
// unless the engine has responded.
func fault(ctx context.Context, what string, err error) error {
	switch {
	case err == nil, errors.Is(err, errChanged):
		return err
	case errors.Is(context.Cause(ctx), errTimeout):
		return fmt.Errorf("%s: %w: %w", what, deploy.ErrUnavailable, errTimeout)
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	case !responded(err):
		return fmt.Errorf("%s: %w: the Docker engine cannot be reached", what, deploy.ErrUnavailable)
	}

	text := strings.TrimPrefix(err.Error(), "Error response from daemon: ")
	return fmt.Errorf("%s: %.*s", what, maxText, text)
}

// responded reports whether an error is a response of the engine.
func responded(err error) bool {
	for _, is := range []func(error) bool{
		cerrdefs.IsNotFound, cerrdefs.IsConflict, cerrdefs.IsInvalidArgument, cerrdefs.IsPermissionDenied, cerrdefs.IsUnauthorized,
		cerrdefs.IsInternal, cerrdefs.IsNotImplemented, cerrdefs.IsNotModified, cerrdefs.IsUnknown,
	} {
		if is(err) {
			return true
		}
	}

	return false
}

// gone reports whether the engine has no object of the name.
func gone(err error) bool { return cerrdefs.IsNotFound(err) }

// moved returns errChanged for an error of a call by name, which another call has taken or
// replaced.
func moved(err error) error {
	if cerrdefs.IsNotFound(err) || cerrdefs.IsConflict(err) {
		return fmt.Errorf("%w: %.*s", errChanged, maxText, err.Error())
	}

	return err
}
