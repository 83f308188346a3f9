package openai_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/openai"
)

// failures are error bodies as providers document them or as their users report them. The same body
// in the middle of a stream has the same code, except where the status has more information.
var failures = map[string]struct {
	status   int
	body     string
	code     model.Code
	inStream model.Code // "" if it is code
	message  string
}{
	"OpenAI, quota": {429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`,
		model.Code(runvalue.ErrorTypeRateLimit), "", "You exceeded your current quota, please check your plan and billing details."},
	"OpenAI, model": {404, `{"error":{"message":"The model 'x' does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), "", "The model 'x' does not exist or you do not have access to it."},
	"OpenAI, server": {500, `{"error":{"message":"The server had an error while processing your request. Sorry about that!","type":"server_error","param":null,"code":null}}`,
		model.Code(runvalue.ErrorTypeServer), "", "The server had an error while processing your request. Sorry about that!"},
	"OpenAI, region": {403, `{"error":{"code":"unsupported_country_region_territory","message":"Country, region, or territory not supported","param":null,"type":"request_forbidden"}}`,
		model.Code(runvalue.ErrorTypeAuth), model.Code(runvalue.ErrorTypeUnknown), "Country, region, or territory not supported"},
	"Azure, content filter": {400, `{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{"hate":{"filtered":true,"severity":"high"}}}}}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), "", "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."},
	"Azure, rate": {429, `{"error":{"code":"429","message":"Requests to the ChatCompletions_Create Operation have exceeded token rate limit. Please retry after 7 seconds."}}`,
		model.Code(runvalue.ErrorTypeRateLimit), "", "Requests to the ChatCompletions_Create Operation have exceeded token rate limit. Please retry after 7 seconds."},
	"Azure, deployment": {404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), model.Code(runvalue.ErrorTypeUnknown), "The API deployment for this resource does not exist."},
	"Azure, management": {401, `{"statusCode":401,"message":"Unauthorized. Access token is missing, invalid, audience is incorrect, or have expired."}`,
		model.Code(runvalue.ErrorTypeAuth), model.Code(runvalue.ErrorTypeUnknown), "upstream did not accept the API key"},
	"Gemini, argument": {400, `[{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"reasoning\": Cannot find field.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.BadRequest"}]}}]`,
		model.Code(runvalue.ErrorTypeInvalidRequest), "", `Invalid JSON payload received. Unknown name "reasoning": Cannot find field.`},
	"Gemini, quota": {429, `[{"error":{"code":429,"message":"You exceeded your current quota.","status":"RESOURCE_EXHAUSTED"}}]`,
		model.Code(runvalue.ErrorTypeRateLimit), "", "You exceeded your current quota."},
	"Gemini, overloaded": {503, `[{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}]`,
		model.Code(runvalue.ErrorTypeServer), "", "The model is overloaded. Please try again later."},
	"Gemini, window": {400, `[{"error":{"code":400,"message":"The input token count (461428) exceeds the maximum number of tokens allowed (131072).","status":"INVALID_ARGUMENT"}}]`,
		model.Code(runvalue.ErrorTypePromptTooLong), "", "The input token count (461428) exceeds the maximum number of tokens allowed (131072)."},
	"Vertex, window": {400, `[{"error":{"code":400,"message":"Unable to submit request because the input token count is 32825 but model only supports up to 32768.","status":"INVALID_ARGUMENT"}}]`,
		model.Code(runvalue.ErrorTypePromptTooLong), "", "Unable to submit request because the input token count is 32825 but model only supports up to 32768."},
	"Mistral, field": {422, `{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","stream_options","include_usage"],"msg":"Extra inputs are not permitted","input":true}]},"type":"invalid_request_error","param":null,"code":null}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), "", "body.stream_options.include_usage: Extra inputs are not permitted"},
	"Mistral, field, newer": {422, `{"object":"Error","detail":[{"type":"extra_forbidden","loc":["body","tools"],"msg":"Extra inputs are not permitted","input":[]}],"message":[{"type":"extra_forbidden","loc":["body","tools"],"msg":"Extra inputs are not permitted","input":[]}],"type":"invalid_request_error","code":3001}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), "", "body.tools: Extra inputs are not permitted"},
	"Mistral, field, proxy": {422, `{"object":"error","message":"{\"detail\":[{\"type\":\"extra_forbidden\",\"loc\":[\"body\",\"frequency_penalty\"],\"msg\":\"Extra inputs are not permitted\",\"input\":0.0}]}","type":"internal_error_proxy","param":null,"code":"1000"}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), model.Code(runvalue.ErrorTypeUnknown), "body.frequency_penalty: Extra inputs are not permitted"},
	"Mistral, id": {400, `{"object":"error","message":"Tool call id was turn1_0 but must be a-z, A-Z, 0-9, with a length of 9.","type":"invalid_function_call","param":null,"code":"3280","raw_status_code":400}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), "", "Tool call id was turn1_0 but must be a-z, A-Z, 0-9, with a length of 9."},
	"Mistral, rate": {429, `{"object":"error","message":"Service tier capacity exceeded for this model.","type":"service_tier_capacity_exceeded","param":null,"code":"3505","raw_status_code":429}`,
		model.Code(runvalue.ErrorTypeRateLimit), "", "Service tier capacity exceeded for this model."},
	"Mistral, window": {400, `{"object":"error","message":"Prompt contains 40069 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_prompt","param":null,"code":"3051"}`,
		model.Code(runvalue.ErrorTypePromptTooLong), "", "Prompt contains 40069 tokens and 0 draft tokens, too large for model with 32768 maximum context length"},
	"DeepSeek, reasoning": {400, "{\"error\":{\"message\":\"The `reasoning_content` in the thinking mode must be passed back to the API.\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":\"invalid_request_error\"}}",
		model.Code(runvalue.ErrorTypeInvalidRequest), "", "The `reasoning_content` in the thinking mode must be passed back to the API."},
	"DeepSeek, balance": {402, `{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), "", "Insufficient Balance"},
	"Kimi, reasoning": {400, `{"error":{"message":"thinking is enabled but reasoning_content is missing in assistant tool call message at index 3","type":"invalid_request_error"}}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), "", "thinking is enabled but reasoning_content is missing in assistant tool call message at index 3"},
	"Kimi, overloaded": {429, `{"error":{"message":"The engine is currently overloaded, please try again later","type":"engine_overloaded_error"}}`,
		model.Code(runvalue.ErrorTypeRateLimit), model.Code(runvalue.ErrorTypeOverloaded), "The engine is currently overloaded, please try again later"},
	"Kimi, window": {400, `{"error":{"message":"Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)","type":"invalid_request_error"}}`,
		model.Code(runvalue.ErrorTypePromptTooLong), "", "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)"},
	"SiliconFlow": {400, `{"code":20015,"message":"thinking is enabled but reasoning_content is missing in assistant tool call message at index 32","data":null}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), model.Code(runvalue.ErrorTypeUnknown), "thinking is enabled but reasoning_content is missing in assistant tool call message at index 32"},
	"GLM, rate": {429, `{"error":{"code":"1302","message":"High concurrency usage of this API, please reduce concurrency or contact customer service to increase limits"}}`,
		model.Code(runvalue.ErrorTypeRateLimit), model.Code(runvalue.ErrorTypeUnknown), "High concurrency usage of this API, please reduce concurrency or contact customer service to increase limits"},
	"GLM, window": {400, `{"error":{"code":"1261","message":"Prompt exceeds max length"}}`,
		model.Code(runvalue.ErrorTypePromptTooLong), "", "Prompt exceeds max length"},
	"GLM, window at a hub": {400, `{"error":{"message":"Input length 877338 exceeds the maximum allowed input length of 639968 tokens","code":"400"}}`,
		model.Code(runvalue.ErrorTypePromptTooLong), "", "Input length 877338 exceeds the maximum allowed input length of 639968 tokens"},
	"MiniMax, with status 200": {200, `{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`,
		model.Code(runvalue.ErrorTypeRateLimit), "", "insufficient balance"},
	"MiniMax, window": {400, `{"type":"error","error":{"type":"bad_request_error","message":"invalid params, context window exceeds limit (2013)","http_code":"400"},"request_id":"x"}`,
		model.Code(runvalue.ErrorTypePromptTooLong), "", "invalid params, context window exceeds limit (2013)"},
	"MiniMax, other": {400, `{"type":"error","error":{"type":"bad_request_error","message":"invalid params, empty messages (2013)","http_code":"400"},"request_id":"x"}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), "", "invalid params, empty messages (2013)"},
	"MiniMax, result": {400, `{"type":"error","error":{"type":"invalid_request_error","message":"invalid params, tool result's tool id not found (2013)","http_code":"400"},"request_id":"x"}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), "", "invalid params, tool result's tool id not found (2013)"},
	"Qwen, window": {400, `{"error":{"message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]","type":"invalid_request_error","param":null,"code":"invalid_parameter_error"},"id":"chatcmpl-1","request_id":"1"}`,
		model.Code(runvalue.ErrorTypePromptTooLong), "", "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]"},
	"Qwen, rate": {429, `{"error":{"message":"You exceeded your current requests list.","type":"limit_requests","param":null,"code":"limit_requests"},"request_id":"1"}`,
		model.Code(runvalue.ErrorTypeRateLimit), model.Code(runvalue.ErrorTypeUnknown), "You exceeded your current requests list."},
	"Ollama, model": {404, `{"error":{"message":"model \"qwen9\" not found, try pulling it first","type":"not_found_error","param":null,"code":null}}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), "", `model "qwen9" not found, try pulling it first`},
	"Ollama, tools": {400, `{"error":{"message":"registry.ollama.ai/library/gemma:2b does not support tools","type":"api_error","param":null,"code":null}}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), model.Code(runvalue.ErrorTypeServer), "registry.ollama.ai/library/gemma:2b does not support tools"},
	"llama.cpp, window": {400, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}`,
		model.Code(runvalue.ErrorTypePromptTooLong), "", "the request exceeds the available context size, try increasing it"},
	"llama.cpp, loading": {503, `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`,
		model.Code(runvalue.ErrorTypeServer), "", "Loading model"},
	"vLLM, older": {400, `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.","type":"BadRequestError","param":null,"code":400}`,
		model.Code(runvalue.ErrorTypePromptTooLong), "", "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens."},
	"vLLM, newer": {400, `{"error":{"message":"You passed 5000 input tokens and requested 100 output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of 3996 tokens. Please reduce the length of the input prompt.","type":"BadRequestError","param":"input_tokens","code":400}}`,
		model.Code(runvalue.ErrorTypePromptTooLong), "", "You passed 5000 input tokens and requested 100 output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of 3996 tokens. Please reduce the length of the input prompt."},
	"vLLM, key": {401, `{"error":"Unauthorized"}`, model.Code(runvalue.ErrorTypeAuth), model.Code(runvalue.ErrorTypeUnknown), "upstream did not accept the API key"},
	"vLLM, tools": {400, `{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","type":"BadRequestError","param":null,"code":400}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), "", `"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set`},
	"SGLang, window": {400, `{"object":"error","message":"The input (400013 tokens) is longer than the model's context length (262144 tokens).","type":"BadRequestError","param":null,"code":400}`,
		model.Code(runvalue.ErrorTypePromptTooLong), "", "The input (400013 tokens) is longer than the model's context length (262144 tokens)."},
	"TGI": {422, "{\"error\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`\",\"error_type\":\"validation\"}",
		model.Code(runvalue.ErrorTypePromptTooLong), "", "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`"},
	"LM Studio": {400, `{"error":{"message":"Compute error."},"message":"Compute error."}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), model.Code(runvalue.ErrorTypeUnknown), "Compute error."},
	"LM Studio, window": {400, `{"error":"Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}`,
		model.Code(runvalue.ErrorTypePromptTooLong), "", "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."},
	"OpenRouter, credits": {402, `{"error":{"message":"This request requires more credits, or fewer max_tokens.","code":402}}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), "", "This request requires more credits, or fewer max_tokens."},
	"OpenRouter, provider": {400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"thinking is enabled but reasoning_content is missing\",\"type\":\"invalid_request_error\"}}","provider_name":"Moonshot AI"}}}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), "", "Provider returned error: thinking is enabled but reasoning_content is missing"},
	"OpenRouter, provider's window": {400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"Input length (265330) exceeds model's maximum context length (262144).\"}}","provider_name":"X"}}}`,
		model.Code(runvalue.ErrorTypePromptTooLong), "", "Provider returned error: Input length (265330) exceeds model's maximum context length (262144)."},
	"OpenRouter, moderation": {403, `{"error":{"message":"Input was flagged","code":403,"metadata":{"reasons":["violence"],"flagged_input":"x","provider_name":"OpenAI"}}}`,
		model.Code(runvalue.ErrorTypeAuth), "", "Input was flagged"},
	"Groq, too large": {413, "{\"error\":{\"message\":\"Request too large for model `moonshotai/kimi-k2-instruct` on tokens per minute (TPM): Limit 10000, Requested 15088, please reduce your message size and try again.\",\"type\":\"tokens\",\"code\":\"rate_limit_exceeded\"}}",
		model.Code(runvalue.ErrorTypeRateLimit), "", "Request too large for model `moonshotai/kimi-k2-instruct` on tokens per minute (TPM): Limit 10000, Requested 15088, please reduce your message size and try again."},
	"Groq, call": {400, `{"error":{"message":"Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=a>","status_code":400}}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), "", "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details."},
	"Groq, field": {400, `{"error":{"message":"'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'reasoning_content' is unsupported)]","type":"invalid_request_error"}}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), "", "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'reasoning_content' is unsupported)]"},
	"xAI, key": {400, `{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xai-abcdefgh. You can obtain an API key from https://console.x.ai."}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), model.Code(runvalue.ErrorTypeUnknown), "Incorrect API key provided: [redacted] You can obtain an API key from [address]"},
	"Cerebras, rate": {429, `{"message":"Tokens per minute limit exceeded - too many tokens processed.","type":"too_many_tokens_error","param":"quota","code":"token_quota_exceeded"}`,
		model.Code(runvalue.ErrorTypeRateLimit), model.Code(runvalue.ErrorTypeUnknown), "Tokens per minute limit exceeded - too many tokens processed."},
	"Cerebras, window": {400, `{"message":"Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}`,
		model.Code(runvalue.ErrorTypePromptTooLong), "", "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192"},
	"NVIDIA": {422, `{"type":"urn:inference-service:problem-details:unprocessable-entity","title":"Unprocessable Entity","status":422,"detail":"body -> n\n  Extra inputs are not permitted (type=extra_forbidden)","instance":"/v2/nvcf","requestId":"1"}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), "", "body -> n Extra inputs are not permitted (type=extra_forbidden)"},
	"GitHub Models": {413, `{"error":{"code":"tokens_limit_reached","message":"Request body too large for gpt-4o model. Max size: 8000 tokens.","details":"Request body too large"}}`,
		model.Code(runvalue.ErrorTypePromptTooLong), model.Code(runvalue.ErrorTypeUnknown), "Request body too large for gpt-4o model. Max size: 8000 tokens."},
	"LiteLLM": {429, `{"error":{"message":"litellm.RateLimitError: RateLimitError: OpenAIException - slow down","type":"throttling_error","param":null,"code":"429"}}`,
		model.Code(runvalue.ErrorTypeRateLimit), "", "litellm.RateLimitError: RateLimitError: OpenAIException - slow down"},
	"Cloudflare": {403, `{"result":null,"success":false,"errors":[{"code":10000,"message":"Authentication error"}],"messages":[]}`,
		model.Code(runvalue.ErrorTypeAuth), model.Code(runvalue.ErrorTypeUnknown), "Authentication error"},
	"Portkey": {400, `{"status":"failure","message":"Either x-portkey-config or x-portkey-provider header is required"}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), model.Code(runvalue.ErrorTypeUnknown), "Either x-portkey-config or x-portkey-provider header is required"},
	"Bedrock": {400, `{"message":"Input is too long for requested model."}`,
		model.Code(runvalue.ErrorTypePromptTooLong), "", "Input is too long for requested model."},
	"Bedrock, rate": {429, `{"message":"Too many tokens, please wait before trying again."}`,
		model.Code(runvalue.ErrorTypeRateLimit), model.Code(runvalue.ErrorTypeUnknown), "Too many tokens, please wait before trying again."},
	"FastAPI": {422, `{"detail":[{"type":"missing","loc":["body","model"],"msg":"Field required"},{"type":"x","loc":["body","n"],"msg":"Bad"}]}`,
		model.Code(runvalue.ErrorTypeInvalidRequest), model.Code(runvalue.ErrorTypeUnknown), "body.model: Field required; body.n: Bad"},
}

// Errors of providers keep their cause, with their status and in the middle of a stream.
func TestErrorsOfProviders(t *testing.T) {
	fail := func(t *testing.T, m model.Model) *model.Error {
		_, err := new(collect.Collector).Collect(m.Stream(t.Context(), hello()))
		var coded *model.Error
		require.ErrorAs(t, err, &coded)
		return coded
	}
	for name, row := range failures {
		t.Run(name, func(t *testing.T) {
			got := fail(t, client(t, openai.Config{HTTPClient: &http.Client{Transport: upstreamFunc(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: row.status, Header: http.Header{"Content-Type": {"application/json"}},
					Body: io.NopCloser(strings.NewReader(row.body))}, nil
			})}}))
			require.Equal(t, row.message, got.Message)
			require.Equal(t, row.code, got.Code)

			inStream := row.inStream
			if inStream == "" {
				inStream = row.code
			}
			for _, raw := range []string{"event: error\ndata: " + row.body + "\n\n", "error: " + row.body + "\n\n"} {
				got = fail(t, inMemory(t, func() io.Reader { return strings.NewReader(delta(`"content":"a"`) + raw) }))
				require.Equal(t, inStream, got.Code, raw)
				if got.Code != model.Code(runvalue.ErrorTypeAuth) || row.status == http.StatusForbidden {
					require.NotEmpty(t, got.Message)
				}
			}
			if !strings.Contains(row.body, `"error":`) {
				return
			}
			got = fail(t, inMemory(t, func() io.Reader { return strings.NewReader(delta(`"content":"a"`) + "data: " + row.body + "\n\n") }))
			require.Equal(t, inStream, got.Code)
		})
	}
}
