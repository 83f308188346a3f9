package s3blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// object reads an object by ranges.
type object struct {
	driver *Driver
	ctx    context.Context
	key    string
	size   int64
	at     int64         // the next byte
	body   io.ReadCloser // from at; nil before a request
	cancel context.CancelCauseFunc
	stall  *time.Timer // cancels the request
}

var errStalled = errors.New("the server sent nothing within the time limit")

func (o *object) Read(p []byte) (int, error) {
	if o.at >= o.size {
		return 0, io.EOF
	}

	if len(p) == 0 {
		return 0, nil
	}

	if o.body == nil {
		if err := o.request(); err != nil {
			return 0, err
		}
	}

	o.stall.Reset(o.driver.cfg.Timeout)
	n, err := o.body.Read(p[:min(int64(len(p)), o.size-o.at)])
	stopped := !o.stall.Stop()
	o.at += int64(n)
	switch {
	case o.at == o.size:
		return n, nil
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	case err != nil && stopped:
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, errStalled)
	}

	return n, err
}

// request requests the content from the current position.
func (o *object) request() error {
	ctx, cancel := context.WithCancelCause(o.ctx)
	o.stall = time.AfterFunc(o.driver.cfg.Timeout, func() { cancel(errStalled) })
	in := &s3.GetObjectInput{Bucket: &o.driver.cfg.Bucket, Key: o.driver.key(o.key)}
	if o.at > 0 {
		part := fmt.Sprintf("bytes=%d-", o.at)
		in.Range = &part
	}

	out, err := o.driver.client.GetObject(ctx, in)
	if err != nil {
		if !o.stall.Stop() {
			err = fmt.Errorf("%w: %w", context.DeadlineExceeded, errStalled)
		}

		cancel(nil)
		return known(err)
	}

	o.body, o.cancel = out.Body, cancel
	if o.at > 0 && out.ContentRange == nil {
		return errors.Join(errors.New("the server ignores the range of a request"), o.Close())
	}

	return nil
}

func (o *object) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += o.at
	case io.SeekEnd:
		offset += o.size
	}

	if offset < 0 || whence < io.SeekStart || whence > io.SeekEnd {
		return 0, errors.New("seek in object: invalid position")
	}

	if offset != o.at {
		_ = o.Close() // the rest of the old range is not needed
		o.at = offset
	}

	return offset, nil
}

// Close ends the request. The object can be read again.
func (o *object) Close() error {
	if o.body == nil {
		return nil
	}

	o.stall.Stop()
	o.cancel(nil)
	err := o.body.Close()
	o.body = nil
	return err
}
