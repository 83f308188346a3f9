// Package openapitest holds what a server answers against its OpenAPI document, strictly: a status, a header or a field that
// the document does not name must not come, and what the server refuses with 400 the document must not permit.
//
// A [Document] judges requests with their answers, each an [Exchange]. Whether all that the document has came about is for its
// user to note: Check returns the operation for that.
package openapitest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// Config says what a document is made of, and what it does not say itself.
type Config struct {
	File    string            // its path
	Streams []string          // media types of bodies that a schema says nothing of
	Headers map[string]string // what every answer has, without being documented with each
	Plain   []string          // headers that may come undocumented, beside Content-Type, Content-Length and Date
}

// Document is an OpenAPI document in whose answers objects have no fields but those that it names. It may be used by many
// goroutines.
type Document struct {
	*openapi3.T
	router  routers.Router
	headers map[string]string
	known   []string // headers that need not be documented
}

// Load reads a document, which must be valid with all its examples.
func Load(cfg Config) (*Document, error) {
	for _, media := range cfg.Streams {
		openapi3filter.RegisterBodyDecoder(media, openapi3filter.FileBodyDecoder)
	}
	doc, err := openapi3.NewLoader().LoadFromFile(cfg.File)
	if err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	if err := doc.Validate(context.Background(), openapi3.EnableSchemaFormatValidation()); err != nil {
		return nil, fmt.Errorf("validate the document: %w", err)
	}
	doc.Servers = nil // answers come from test servers
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

// closeSchemas lets objects have no other fields than those they name. The bodies of requests stay open, as servers ignore
// what they do not know.
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

// All lists the operations, as "GET /v1/agents/{agentId}" and what the document has of it.
func (d *Document) All() map[string]*openapi3.Operation {
	all := map[string]*openapi3.Operation{}
	for path, item := range d.Paths.Map() {
		for method, op := range item.Operations() {
			all[method+" "+path] = op
		}
	}
	return all
}

// Schema is the one that is named so among the components, or by a reference to them; nil where there is none.
func (d *Document) Schema(name string) *openapi3.Schema {
	ref := d.Components.Schemas[strings.TrimPrefix(name, "#/components/schemas/")]
	if ref == nil {
		return nil
	}
	return ref.Value
}

// Fits holds a JSON value, as encoding/json reads it, against the schema of that name.
func (d *Document) Fits(schema string, value any) error {
	s := d.Schema(schema)
	if s == nil {
		return fmt.Errorf("the document has no schema %s", schema)
	}
	return s.VisitJSON(value, schemaOptions()...)
}

// Exchange is a request and its answer. The body of the request, where there is one, is JSON.
type Exchange struct {
	Method, Target, Body string
	Status               int
	Header               http.Header
	Answer               string

	// Unforeseen says that the request may be refused for what no document can know.
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
	req.Header.Set("Content-Type", "application/json")
	return req, nil
}

// Check holds an exchange against the operation that the document has for it, which it returns with its path: the answer, and
// the request where it was accepted, or refused with 400.
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
	switch err := openapi3filter.ValidateRequest(req.Context(), in); {
	case x.Status == http.StatusBadRequest && !x.Unforeseen && err == nil:
		return nil, fmt.Errorf("%s: the document permits what was refused", x)
	case x.Status < 400 && err != nil:
		return nil, fmt.Errorf("%s: the document does not permit what was accepted: %w", x, err)
	}
	if err := d.checkAnswer(in, x); err != nil {
		return nil, fmt.Errorf("%s: %w", x, err)
	}
	return route, nil
}

// CheckOutside holds the answer to a request of which the document has no operation against one of its response components.
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
	documented := in.Route.Operation.Responses.Status(x.Status) // which the validator does not ask for with HEAD and 304
	if documented == nil {
		return errors.New("the document does not know the status")
	}
	if x.Method == http.MethodHead && x.Answer != "" {
		return errors.New("the answer to HEAD has a body")
	}
	for name, want := range d.headers {
		if values := x.Header.Values(name); !slices.Equal(values, []string{want}) {
			return fmt.Errorf("header %s is %q, and not %q", name, values, want)
		}
	}
	known := slices.AppendSeq(slices.Clone(d.known), maps.Keys(documented.Value.Headers))
	for name := range x.Header {
		if !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) }) {
			return fmt.Errorf("the document does not know header %s", name)
		}
	}
	return nil
}

// options make the validator look at what it leaves alone otherwise.
func options() *openapi3filter.Options {
	return &openapi3filter.Options{
		IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SchemaValidationOptions: schemaOptions(),
	}
}

func schemaOptions() []openapi3.SchemaValidationOption {
	const uuid = `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$` // in lower case, as all that we write
	return []openapi3.SchemaValidationOption{
		openapi3.EnableJSONSchema2020(),
		openapi3.WithStringFormatValidator("uuid", openapi3.NewRegexpFormatValidator(uuid)),
	}
}
