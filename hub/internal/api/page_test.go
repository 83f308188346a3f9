package api_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
)

func TestPaging(t *testing.T) {
	for query, row := range map[string]struct {
		want   api.Page
		offset int
		fields []string // with faults
	}{
		"":                                     {api.Page{Number: 1, Size: 20}, 0, nil},
		"other=x":                              {api.Page{Number: 1, Size: 20}, 0, nil},
		"page=&page_size=":                     {api.Page{Number: 1, Size: 20}, 0, nil},
		"page=3":                               {api.Page{Number: 3, Size: 20}, 40, nil},
		"page=007&page_size=05":                {api.Page{Number: 7, Size: 5}, 30, nil},
		"page_size=100":                        {api.Page{Number: 1, Size: 100}, 0, nil},
		"page_size=101":                        {api.Page{Number: 1, Size: 100}, 0, nil},
		"page_size=99999999999999999999999999": {api.Page{Number: 1, Size: 100}, 0, nil},
		"page=99999999999999999999999999&page_size=100": {api.Page{Number: 1 << 40, Size: 100}, (1<<40 - 1) * 100, nil},

		"page=0":               {fields: []string{"page"}},
		"page=000":             {fields: []string{"page"}},
		"page=-1":              {fields: []string{"page"}},
		"page=%2B1":            {fields: []string{"page"}},
		"page=1.0":             {fields: []string{"page"}},
		"page=1e2":             {fields: []string{"page"}},
		"page=0x10":            {fields: []string{"page"}},
		"page=%20":             {fields: []string{"page"}},
		"page=1%00":            {fields: []string{"page"}},
		"page=%EF%BC%91":       {fields: []string{"page"}}, // a full-width 1
		"page_size=0":          {fields: []string{"page_size"}},
		"page=x&page_size=-20": {fields: []string{"page", "page_size"}},
		"page=%zz":             {fields: []string{}},
		"page=1;page_size=2":   {fields: []string{}},
	} {
		t.Run(query, func(t *testing.T) {
			h := handler(t, nil, routeWith("GET", "/", func(w http.ResponseWriter, r *http.Request) error {
				page, err := api.Paging(r)
				if err != nil {
					return err
				}
				require.Equal(t, row.want, page)
				require.Equal(t, row.offset, page.Offset())
				return api.NoContent(w)
			}))
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.URL.RawQuery = query
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if row.fields == nil {
				require.Equal(t, 204, w.Code, w.Body)
				return
			}
			require.Equal(t, 400, w.Code)
			f := faultOf(t, w)
			require.Equal(t, "invalid_request", f.Code)
			fields, _ := f.Data["fields"].(map[string]any)
			require.Len(t, fields, len(row.fields))
			for _, name := range row.fields {
				require.Contains(t, fields, name)
			}
		})
	}
}
