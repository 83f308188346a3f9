package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/external"
)

const modeExternal = "external"

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
	if n := len(missing); n > 0 && (n < 3 || s.IDPCert != "" || s.IDPGroups != "") {
		return fmt.Errorf("the identity provider is incomplete: set %s too, or none of the IDP_ settings", strings.Join(missing, " and "))
	}
	for _, admin := range list(s.Admins) {
		if external.CheckAdmin(admin) != nil {
			return fmt.Errorf("EXTERNAL_BOOTSTRAP_ADMINS: %q does not have the form org/username or org/sub:subject", admin)
		}
	}
	return nil
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
	if cfg.IdentityProvider == (external.GlobalClient{}) {
		return nil
	}
	if err := cfg.IdentityProvider.Check(); err != nil {
		return errors.New("IDP_ISSUER, IDP_CLIENT_ID, IDP_CLIENT_SECRET, IDP_CERT and IDP_GROUPS_CLAIM: " + err.Error())
	}
	return nil
}
