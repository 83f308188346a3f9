package hubcmd

import (
	"strings"

	"github.com/seed93082962/agenthost/hub"
)

const modeExternal = "external"

// checkMode checks the settings of external mode, which builtin mode would ignore.
func (s *Settings) checkMode() {
	required := []*string{&s.IDPIssuer, &s.IDPClientID, &s.IDPSecret}
	if s.AuthMode != modeExternal {
		for _, field := range append(required, &s.IDPCert, &s.IDPGroups) {
			if *field != "" {
				s.Fault(field, "it has no effect with AUTH_MODE=builtin: set AUTH_MODE=external, or remove it")
			}
		}

		if len(s.Admins) > 0 {
			s.Fault(&s.Admins, "it has no effect with AUTH_MODE=builtin: set AUTH_MODE=external, or remove it")
		}

		return
	}

	if strings.Join([]string{s.IDPIssuer, s.IDPClientID, s.IDPSecret, s.IDPCert, s.IDPGroups}, "") != "" {
		for _, field := range required {
			if *field == "" {
				s.Fault(field, "it is required, because others of the identity provider are set")
			}
		}
	}

	for _, admin := range s.Admins {
		if hub.CheckBootstrapAdmin(admin) != nil {
			s.Fault(&s.Admins, "%q does not have the form org/username or org/sub:subject", admin)
		}
	}
}

// applyExternal sets the fields of external mode.
func (s *Settings) applyExternal(cfg *hub.Config) {
	if s.AuthMode != modeExternal {
		return
	}

	cfg.External, cfg.BootstrapAdmins = true, s.Admins
	cfg.IdentityProvider = hub.IdentityProvider{
		Issuer: s.IDPIssuer, ClientID: s.IDPClientID, ClientSecret: s.IDPSecret,
		Cert:        strings.ReplaceAll(s.IDPCert, `\n`, "\n"), // one line in many environment files
		GroupsClaim: s.IDPGroups,
	}
	if s.IDPIssuer != "" && s.IDPClientID != "" && s.IDPSecret != "" { // otherwise checkMode has the fault
		s.Invalid(&s.IDPIssuer, cfg.IdentityProvider.Check())
	}
}
