package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/hub/deploy"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// maxTail bounds the part of a log that Logs returns, in bytes.
const maxTail = 2 << 20

// logClient returns a client of the core API, for responses that are no objects.
func logClient(config *rest.Config) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config.GroupVersion = &schema.GroupVersion{Version: "v1"}
	config.APIPath = "/api"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(config)
}

// Logs returns the last lines of the log of a revision, of its first pod. If its container was
// started again, they are those of the former one.
func (d *Driver) Logs(ctx context.Context, ref deploy.Ref, number int64, tail int) ([]string, error) {
	if err := checkRef(ref); err != nil {
		return nil, err
	}

	ctx, cancel := d.bounded(ctx)
	defer cancel()
	if err := d.current(ctx); err != nil {
		return nil, err
	}

	r, _ := d.cached(ref).revision(number)
	for _, p := range slices.Concat(r.current(), r.pods) {
		if len(p.Status.Containers) == 0 {
			continue
		}

		c := p.Status.Containers[0]
		text, err := d.log(ctx, p.Name, tail, c.RestartCount > 0 && c.State.Terminated == nil)
		if gone(err) || errors.Is(err, errNoLog) {
			continue
		}

		return lines(text, tail), fault(ctx, "read log", err)
	}

	return nil, nil
}

var errNoLog = errors.New("the container has no log yet")

func (d *Driver) log(ctx context.Context, name string, tail int, previous bool) ([]byte, error) {
	request := d.logs.Get().Namespace(d.cfg.Namespace).Resource("pods").Name(name).SubResource("log").
		Param("container", container).Param("tailLines", strconv.Itoa(max(tail, 0))).Param("previous", strconv.FormatBool(previous))
	stream, err := request.Stream(ctx)
	if err != nil {
		if statusCode(err) == 400 {
			return nil, errNoLog // it is being created
		}

		return nil, err
	}

	var text lastBytes
	_, err = io.Copy(&text, stream)
	return text.text, errors.Join(err, stream.Close())
}

// lastBytes retains the last bytes that are written to it.
type lastBytes struct{ text []byte }

func (b *lastBytes) Write(p []byte) (int, error) {
	b.text = append(b.text, p...)
	if len(b.text) > 2*maxTail {
		b.text = bytes.Clone(b.text[len(b.text)-maxTail:])
	}

	return len(p), nil
}

// lines returns at most the last n lines of a text.
func lines(text []byte, n int) []string {
	text = text[max(len(text)-maxTail, 0):]
	if len(text) == 0 {
		return nil
	}

	all := strings.Split(strings.TrimSuffix(strings.ToValidUTF8(string(text), "\uFFFD"), "\n"), "\n")
	return all[max(len(all)-n, 0):]
}
