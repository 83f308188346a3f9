// Package api has the common parts of the hub's handlers: routes as data with their permissions,
// JSON bodies, one form of errors, paging, and the caller of a request.
//
// A concern of the hub lists its [Route] values, whose handlers return errors. [New] returns one
// http.Handler for all lists:
//
//	func (s *Service) Routes() []api.Route {
//		return []api.Route{
//			{Method: "POST", Path: "/auth/login", Access: api.Open, Handle: s.login},
//			{Method: "GET", Path: "/api/v1/admin/users/:id", Group: rbac.AdminOnly, Category: "user",
//				Handle: s.showUser},
//		}
//	}
//
//	func (s *Service) showUser(w http.ResponseWriter, r *http.Request) error {
//		user, err := s.User(r.Context(), api.CallerOf(r), r.PathValue("id"))
//		if err != nil {
//			return err
//		}
//		return api.Encode(w, http.StatusOK, user)
//	}
//
// [Result], [ResultOf] and [Done] make such handlers of a call of a service.
//
// Requests are checked in this order: the path (404) and method (405 with Allow), cross-origin
// writes (403), the credential (401), the permission (403), and the body. A path parameter is one
// segment. It is never empty and contains no slash, no control character and only valid UTF-8;
// otherwise the path is 404.
//
// A body is read only up to the limit of its route, 1 MiB by default, and decoded only if it has at
// most 262,144 values. The limits bound time and memory, and encoding/json bounds the depth.
//
// An error is written as {"code","message","data"?,"requestId"}. A handler returns a [Code], an
// [*Error] with details, or [Fields]. Every other error is converted by Config.Translate, or
// becomes a 500 whose text is only in the log.
//
// The access log contains neither queries nor headers. Of a path that matches no route it contains
// only the segments that occur in the route table.
package api
