package hubcmd

import (
	"net"
)

// checkMetrics checks the settings of metrics and traces.
func (s *settings) checkMetrics() {
	s.Settings.Check(s.Origins)
	if _, _, err := net.SplitHostPort(s.MetricsAddr); s.MetricsAddr != "" && err != nil {
		s.Fault(&s.MetricsAddr, "%q is not an address: use host:port, such as 127.0.0.1:9464", s.MetricsAddr)
	}
	if len(s.MetricsHosts) > 0 && s.MetricsAddr == "" {
		s.Fault(&s.MetricsHosts, "it has no effect without HUB_METRICS_ADDR")
	}
}
