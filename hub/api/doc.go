// Package api is what the hub's handlers share: routes as data with who may call them, bodies in and out, errors in one
// shape, paging, and who a request is from.
//
// A concern of the hub lists its [Route] values, whose handlers return errors; [New] makes one http.Handler of all lists:
//
//	func (s *Service) Routes() []api.Route {
//		return []api.Route{
//			{Method: "POST", Path: "/auth/login", Access: api.Open, Handle: s.login},
//			{Method: "GET", Path: "/api/v1/admin/users/:id", Group: rbac.AdminOnly, Category: "user", Handle: s.showUser},
//		}
//	}
//
//	func (s *Service) showUser(w http.ResponseWriter, r *http.Request) error {
//		user, err := s.user(r.Context(), api.CallerOf(r).TenantID, r.PathValue("id"))
//		if err != nil {
//			return err
//		}
//		return api.Encode(w, http.StatusOK, user)
//	}
//
// A request that no route takes is 404, or 405 with Allow, before anybody is asked for credentials; then comes the check
// for calls from other sites, then 401, then 403, then the body. A path parameter is one segment: it is never empty, and
// holds no slash, no control character and only valid UTF-8, or else the path is 404.
//
// An error is answered as {"code","message","data"?,"requestId"}. A handler returns a [Code] as it is, an [*Error] with
// what is special to the case, or [Fields]; every other error is Config.Translate's, and else 500, whose text stands in
// the log and nowhere else.
//
// The access log has neither queries nor headers, and of a path that no route takes only the words that stand in the
// route table.
package api
