package hubcmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/external"
)

const modeExternal = "external"

// checkBuiltin returns an error if settings of external mode would be ignored.
func (s *settings) checkBuiltin() error {
	var unused []string
	for _, setting := range []struct{ name, value string }{
		{"IDP_ISSUER", s.IDPIssuer}, {"IDP_CLIENT_ID", s.IDPClientID}, {"IDP_CLIENT_SECRET", s.IDPSecret}, {"IDP_CERT", s.IDPCert},
		{"IDP_GROUPS_CLAIM", s.IDPGroups}, {"EXTERNAL_BOOTSTRAP_ADMINS", s.Admins},
	} {
		if setting.value != "" {
			unused = append(unused, setting.name)
		}
	}
	if unused == nil {
		return nil
	}
	return fmt.Errorf("AUTH_MODE is builtin, in which %s would be ignored: set AUTH_MODE=external, or remove them", strings.Join(unused, ", "))
}

// checkExternal checks the settings of external mode.
func (s *settings) checkExternal() error {
	missing := []string{}
	for _, setting := range []struct{ name, value string }{
		{"IDP_ISSUER", s.IDPIssuer}, {"IDP_CLIENT_ID", s.IDPClientID}, {"IDP_CLIENT_SECRET", s.IDPSecret},
	} {
		if setting.value == "" {
			missing = append(missing, setting.name)
		}
	}
	var errs []error
	if n := len(missing); n > 0 && (n < 3 || s.IDPCert != "" || s.IDPGroups != "") {
		errs = append(errs, fmt.Errorf("the identity provider is incomplete: set %s too, or none of the IDP_ settings", strings.Join(missing, " and ")))
	}
	for _, admin := range list(s.Admins) {
		if external.CheckAdmin(admin) != nil {
			errs = append(errs, fmt.Errorf("EXTERNAL_BOOTSTRAP_ADMINS: %q does not have the form org/username or org/sub:subject", admin))
		}
	}
	return errors.Join(errs...)
}

// applyExternal sets the fields of external mode, and those of the operations interface, which both
// modes have.
func (s *settings) applyExternal(cfg *hub.Config) error {
	cfg.OpsKey = s.OpsKey
	if s.AuthMode != modeExternal {
		return nil
	}
	cfg.External, cfg.BootstrapAdmins = true, list(s.Admins)
	cfg.IdentityProvider = external.GlobalClient{
		Issuer: s.IDPIssuer, ClientID: s.IDPClientID, ClientSecret: s.IDPSecret,
		Cert:        strings.ReplaceAll(s.IDPCert, `\n`, "\n"), // one line in many environment files
		GroupsClaim: s.IDPGroups,
	}
	if s.IDPIssuer == "" || s.IDPClientID == "" || s.IDPSecret == "" { // checkExternal has the error
		return nil
	}
	if err := cfg.IdentityProvider.Check(); err != nil {
		return errors.New("IDP_ISSUER, IDP_CLIENT_ID, IDP_CLIENT_SECRET, IDP_CERT and IDP_GROUPS_CLAIM: " + err.Error())
	}
	return nil
}
