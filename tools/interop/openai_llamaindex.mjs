// Uses a runtime with LlamaIndex: node openai_llamaindex.mjs URL KEY.
import { openai, openaiResponses } from "@llamaindex/openai";
import { tool } from "llamaindex";
import { z } from "zod";

const [baseURL, apiKey] = process.argv.slice(2);
const out = {};
for (const [name, make] of Object.entries({ chat: openai, responses: openaiResponses })) {
  const called = [];
  const weather = tool({
    name: "weather", description: "d", parameters: z.object({ city: z.string() }),
    execute: async (input) => { called.push(input.city); return "it rains"; },
  });
  const llm = make({ model: "bot", baseURL, apiKey, maxRetries: 0 });
  const whole = await llm.chat({ messages: [{ role: "user", content: "Hello, café 😀" }] });
  let streamed = "";
  for await (const chunk of await llm.chat({ messages: [{ role: "user", content: "And streamed?" }], stream: true })) streamed += chunk.delta;
  const asked = await llm.exec({ messages: [{ role: "user", content: '/tool weather {"city":"Paris"}' }], tools: [weather] });
  const told = await llm.exec({ messages: [{ role: "user", content: '/tool weather {"city":"Paris"}' }, ...asked.newMessages], tools: [weather] });
  out[name] = { text: whole.message.content, streamed, called, told: JSON.stringify(told.newMessages) };
}

console.log(JSON.stringify(out));
