// Package openapitest compares the responses of a server with its OpenAPI document. The comparison
// is strict: every status, header and field of a response must be documented, and a request that
// the server rejects with 400 must be invalid by the document.
//
// A [Document] checks exchanges of a request and a response. Check returns the operation, so that
// its caller can verify that everything documented has occurred.
package openapitest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// Config is a document and the facts that it does not contain.
type Config struct {
	File    string            // path of the document
	Streams []string          // media types of bodies without a schema
	Headers map[string]string // headers of every response that does not document another value
	Plain   []string          // headers that need not be documented, in addition to Content-Type, Content-Length and Date
}

// Document is an OpenAPI document in whose responses objects have only documented fields. It is
// safe for concurrent use.
type Document struct {
	*openapi3.T
	router  routers.Router
	headers map[string]string
	known   []string // headers that need not be documented
}

// Load reads a document, which must be valid including its examples.
func Load(cfg Config) (*Document, error) {
	for _, media := range cfg.Streams {
		openapi3filter.RegisterBodyDecoder(media, openapi3filter.FileBodyDecoder)
	}

	doc, err := openapi3.NewLoader().LoadFromFile(cfg.File)
	if err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}

	if err := checkAnchors(cfg.File); err != nil {
		return nil, err
	}

	if err := doc.Validate(context.Background(), openapi3.EnableSchemaFormatValidation()); err != nil {
		return nil, fmt.Errorf("validate the document: %w", err)
	}

	doc.Servers = nil // responses come from test servers
	if err := closeSchemas(doc); err != nil {
		return nil, err
	}

	router, err := legacy.NewRouter(doc)
	if err != nil {
		return nil, fmt.Errorf("route by the document: %w", err)
	}

	known := slices.Concat(slices.Collect(maps.Keys(cfg.Headers)), cfg.Plain, []string{"Content-Type", "Content-Length", "Date"})
	return &Document{T: doc, router: router, headers: cfg.Headers, known: known}, nil
}

// anchor matches a YAML anchor that follows a key or begins an element of a list.
var anchor = regexp.MustCompile(`[-:] &(\w+)`)

// checkAnchors requires that anchors are unique, because PyYAML rejects a document in which they
// are not. YAML permits it.
func checkAnchors(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}

	seen := map[string]bool{}
	for _, match := range anchor.FindAllStringSubmatch(string(text), -1) {
		if seen[match[1]] {
			return fmt.Errorf("the anchor %s is not unique", match[1])
		}

		seen[match[1]] = true
	}

	return nil
}

// closeSchemas restricts objects to their documented fields. Request bodies stay open, because
// servers ignore unknown fields.
func closeSchemas(doc *openapi3.T) error {
	open := map[*openapi3.Schema]bool{}
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			if op.RequestBody == nil {
				continue
			}

			for _, media := range op.RequestBody.Value.Content {
				if media.Schema != nil {
					open[media.Schema.Value] = true
				}
			}
		}
	}

	closed := false
	return doc.WalkSchemas(func(_ string, ref *openapi3.SchemaRef) error {
		if s := ref.Value; s != nil && !open[s] && s.Type.Is("object") && s.AdditionalProperties.Schema == nil && len(s.Properties) > 0 {
			s.AdditionalProperties.Has = &closed
		}

		return nil
	})
}

// All returns the operations by name, such as "GET /v1/agents/{agentId}".
func (d *Document) All() map[string]*openapi3.Operation {
	all := map[string]*openapi3.Operation{}
	for path, item := range d.Paths.Map() {
		for method, op := range item.Operations() {
			all[method+" "+path] = op
		}
	}

	return all
}

// Schema returns the schema with a name or reference of the components, or nil.
func (d *Document) Schema(name string) *openapi3.Schema {
	ref := d.Components.Schemas[strings.TrimPrefix(name, "#/components/schemas/")]
	if ref == nil {
		return nil
	}

	return ref.Value
}

// Fits checks a JSON value, as decoded by encoding/json, against the schema with that name.
func (d *Document) Fits(schema string, value any) error {
	s := d.Schema(schema)
	if s == nil {
		return fmt.Errorf("the document has no schema %s", schema)
	}

	return s.VisitJSON(value, schemaOptions()...)
}

const jsonMedia = "application/json"

// Exchange is a request and its response.
type Exchange struct {
	Method, Target, Body string

	// Media is the media type of the body, JSON if it is empty. A body of another type is not
	// validated: only its type must be documented if the request was accepted.
	Media string

	Status int
	Header http.Header
	Answer string

	// Unforeseen means that the request may be rejected for reasons outside the document.
	Unforeseen bool
}

func (x Exchange) String() string {
	return fmt.Sprintf("%s %s %s answered %d %v %s", x.Method, x.Target, x.Body, x.Status, x.Header, x.Answer)
}

func (x Exchange) request() (*http.Request, error) {
	req, err := http.NewRequestWithContext(context.Background(), x.Method, x.Target, strings.NewReader(x.Body))
	if err != nil {
		return nil, err
	}

	req.Header.Set("Content-Type", jsonMedia)
	return req, nil
}

// Check checks an exchange against its operation, which it returns with its path: the response
// always, the request if it was accepted or rejected with 400.
func (d *Document) Check(x Exchange) (*routers.Route, error) {
	req, err := x.request()
	if err != nil {
		return nil, err
	}

	route, params, err := d.router.FindRoute(req)
	if err != nil {
		return nil, fmt.Errorf("find the operation of %s %s: %w", x.Method, x.Target, err)
	}

	in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: options()}
	if x.Media != "" && x.Media != jsonMedia {
		in.Options.ExcludeRequestBody, x.Unforeseen = true, true
		if body := route.Operation.RequestBody; x.Status < 400 && (body == nil || body.Value.Content.Get(x.Media) == nil) {
			return nil, fmt.Errorf("%s: the document does not permit the media type %s", x, x.Media)
		}
	}

	switch err := openapi3filter.ValidateRequest(req.Context(), in); {
	case x.Status == http.StatusBadRequest && !x.Unforeseen && err == nil:
		return nil, fmt.Errorf("%s: the document permits a rejected request", x)
	case x.Status < 400 && err != nil:
		return nil, fmt.Errorf("%s: the document does not permit an accepted request: %w", x, err)
	}

	if err := d.checkAnswer(in, x); err != nil {
		return nil, fmt.Errorf("%s: %w", x, err)
	}

	return route, nil
}

// CheckOutside checks the response to a request without an operation against one of the response
// components.
func (d *Document) CheckOutside(response string, x Exchange) error {
	ref := d.Components.Responses[response]
	if ref == nil {
		return fmt.Errorf("the document has no response %s", response)
	}

	req, err := x.request()
	if err != nil {
		return err
	}

	op := &openapi3.Operation{Responses: openapi3.NewResponses(openapi3.WithStatus(x.Status, ref))}
	in := &openapi3filter.RequestValidationInput{
		Request: req, Options: options(), Route: &routers.Route{Spec: d.T, Operation: op, PathItem: &openapi3.PathItem{}},
	}
	if err := d.checkAnswer(in, x); err != nil {
		return fmt.Errorf("%s: %w", x, err)
	}

	return nil
}

func (d *Document) checkAnswer(in *openapi3filter.RequestValidationInput, x Exchange) error {
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: x.Status, Header: x.Header, Options: options()}
	out.SetBodyBytes([]byte(x.Answer))
	if err := openapi3filter.ValidateResponse(in.Request.Context(), out); err != nil {
		return err
	}

	documented := in.Route.Operation.Responses.Status(x.Status) // the validator does not check it for HEAD and 304
	if documented == nil {
		return errors.New("the status is not documented")
	}

	if x.Method == http.MethodHead && x.Answer != "" {
		return errors.New("the response to HEAD has a body")
	}

	for name, want := range d.headers {
		if _, replaced := documented.Value.Headers[name]; replaced {
			continue // the validator checked it
		}

		if values := x.Header.Values(name); !slices.Equal(values, []string{want}) {
			return fmt.Errorf("header %s is %q, and not %q", name, values, want)
		}
	}

	known := slices.AppendSeq(slices.Clone(d.known), maps.Keys(documented.Value.Headers))
	for name := range x.Header {
		if !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) }) {
			return fmt.Errorf("undocumented header %s", name)
		}
	}

	return nil
}

// options enable optional checks of the validator.
func options() *openapi3filter.Options {
	return &openapi3filter.Options{
		IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SchemaValidationOptions: schemaOptions(),
	}
}

func schemaOptions() []openapi3.SchemaValidationOption {
	const uuid = `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$` // in lower case, like all generated ids
	return []openapi3.SchemaValidationOption{
		openapi3.EnableJSONSchema2020(),
		openapi3.WithStringFormatValidator("uuid", openapi3.NewRegexpFormatValidator(uuid)),
	}
}
