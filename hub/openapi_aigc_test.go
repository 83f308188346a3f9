package hub_test

import (
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/wire"
)

func (c *contract) aigc(admin string) {
	const (
		config   = "/api/v1/admin/aigc/config"
		rotate   = config + "/rotate-key"
		verify   = "/api/v1/admin/aigc/verify"
		producer = "00119144030071526726XG10000"
	)
	with := func(fields string) string {
		return c.override(`{"enabled":true,"companyName":"Example","contentProducer":"`+producer+`"}`, fields)
	}
	c.ok(200, "GET", config, admin, "")
	c.reject(404, wire.NotFound, "POST", rotate, admin, "")
	c.faulty("PUT", config, admin, with(`,"label":"4"`), with(`,"uscc":"1"`), with(`,"propagator":"1"`), with(`,"produceIdPrefix":"a b"`), with(`,"contentProducer":"1"`),
		with(`,"explicit":{"mode":"both"}`), with(`,"explicit":{"text":"AI"}`), with(`,"signing":{"algorithm":"none"}`))
	c.ok(200, "PUT", config, admin, with(`,"enabled":false`))
	c.ok(200, "GET", config, admin, "") // exactly one of the two forms
	c.ok(200, "PUT", config, admin, with(""))
	c.reject(409, wire.Conflict, "POST", rotate, admin, "")
	c.ok(200, "PUT", config, admin, with(`,"uscc":"9144030071526726XG","propagator":"`+producer+`","signing":{"enabled":true},"explicit":{"mode":"off","text":null}`))
	c.ok(200, "POST", rotate, admin, "")
	c.ok(200, "GET", config, admin, "")
	signed := func(code string) string {
		return `{"Label":"1","ContentProducer":"","ProduceID":"","ReservedCode1":"` + code + `","ContentPropagator":"","PropagateID":"","ReservedCode2":""}`
	}
	for body, reason := range map[string]string{
		signed(""): "unsigned", `{"aigc":` + signed("v1") + `}`: "malformed", `{"Label":"1"}`: "malformed",
		`{"AIGC":` + signed("v1.k.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA") + `}`: "unknown_key",
	} {
		require.Equal(c.t, reason, c.ok(200, "POST", verify, admin, body)["reason"])
	}
	c.faulty("POST", verify, admin, `{}`, `{"aigc":1}`)
	c.ok(204, "DELETE", config, admin, "")
}
