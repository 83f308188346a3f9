package api

import "net/http"

// versioned is a result that has a version, which the response has as its ETag. 0 is none.
type versioned interface{ CurrentVersion() int64 }

// Result returns the handler of a route that responds with the status and the result of call as
// JSON. If the result has a method CurrentVersion() int64, the version is the ETag of the response.
func Result[T any](status int, call func(r *http.Request) (T, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		result, err := call(r)
		return respond(w, status, result, err)
	}
}

// ResultOf is [Result] for a route with a JSON body.
func ResultOf[In, T any](status int, call func(r *http.Request, in In) (T, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		in, err := Decode[In](w, r)
		if err != nil {
			return err
		}
		result, err := call(r, in)
		return respond(w, status, result, err)
	}
}

// Done returns the handler of a route that responds with 204 unless call fails.
func Done(call func(r *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := call(r); err != nil {
			return err
		}
		return NoContent(w)
	}
}

func respond(w http.ResponseWriter, status int, result any, err error) error {
	if err != nil {
		return err
	}
	if v, ok := result.(versioned); ok && v.CurrentVersion() > 0 {
		SetVersion(w, v.CurrentVersion())
	}
	return Encode(w, status, result)
}
