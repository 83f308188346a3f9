// Uses a runtime with the official client of OpenAI: node openai.mjs URL KEY. It prints what it has
// received as one object of JSON.
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const model = "bot";
const messages = [{ role: "user", content: "Hello, café 😀" }];
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const out = {};

out.models = (await client.models.list()).data.map((m) => m.id);
out.chat = (await client.chat.completions.create({ model, messages })).choices[0].message.content;

const stream = client.chat.completions.stream({ model, messages, stream_options: { include_usage: true } });
out.chatDeltas = 0;
stream.on("content", () => out.chatDeltas++);
out.chatStream = (await stream.finalChatCompletion()).choices[0].message.content;
out.chatUsage = (await stream.totalUsage()).total_tokens;

// The client calls its function, and sends the result in a second request.
const called = [];
const runner = client.chat.completions.runTools({
  model,
  messages: [{ role: "user", content: '/tool weather {"city":"Paris"}' }],
  tools: [{ type: "function", function: { name: "weather", description: "d", parameters, parse: JSON.parse,
    function: async (input) => { called.push(input); return "it rains"; } } }],
});
out.toolRunner = await runner.finalContent();
out.called = called;

const first = await client.responses.create({ model, input: "My name is Ada." });
out.response = first.output_text;
out.retrieved = (await client.responses.retrieve(first.id)).output_text;
const events = [];
const responses = client.responses.stream({ model, input: "And now?", previous_response_id: first.id });
responses.on("response.output_text.delta", (e) => events.push(e.delta));
out.responseStream = (await responses.finalResponse()).output_text;
out.responseDeltas = events.join("");

const tools = [{ type: "function", name: "weather", description: "d", parameters, strict: true }];
const asked = await client.responses.create({ model, input: '/tool weather {"city":"Rome"}', tools });
const call = asked.output.find((i) => i.type === "function_call");
out.functionCall = call.arguments;
const told = await client.responses.create({ model, tools, previous_response_id: asked.id,
  input: [{ type: "function_call_output", call_id: call.call_id, output: "it is sunny" }] });
out.functionAnswer = told.output_text;

// The demo model calls the tool that it names: here that of the output.
const weather = z.object({ city: z.string(), degrees: z.number() });
const output = '/tool StructuredOutput {"city":"Oslo","degrees":"-3"}';
const format = zodResponseFormat(weather, "weather");
out.parsedChat = (await client.chat.completions.parse({ model, messages: [{ role: "user", content: output }], response_format: format })).choices[0].message.parsed;
const parsing = client.chat.completions.stream({ model, messages: [{ role: "user", content: output }], response_format: format });
out.parsedStream = (await parsing.finalChatCompletion()).choices[0].message.parsed;
out.parsedResponse = (await client.responses.parse({ model, input: output, text: { format: zodTextFormat(weather, "weather") } })).output_parsed;

await client.responses.delete(first.id);
const errors = [
  () => client.responses.retrieve(first.id),
  () => client.chat.completions.create({ model: "other", messages }),
  () => client.chat.completions.create({ model, messages, n: 2 }),
  () => client.chat.completions.parse({ model, messages, response_format: format }),
  () => new OpenAI({ baseURL, apiKey: "wrong", maxRetries: 0 }).models.list(),
];
out.errors = [];
for (const f of errors) {
  try {
    await f();
    out.errors.push("none");
  } catch (e) {
    out.errors.push(`${e.constructor.name} ${e.status} ${e.code}`);
  }
}

console.log(JSON.stringify(out));
