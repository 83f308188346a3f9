// Uses a runtime with the AI SDK and its two providers: node openai_ai.mjs URL KEY.
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const [baseURL, apiKey] = process.argv.slice(2);
const models = {
  responses: createOpenAI({ baseURL, apiKey }).responses("bot"),
  chat: createOpenAI({ baseURL, apiKey }).chat("bot"),
  compatible: createOpenAICompatible({ name: "agenthost", baseURL, apiKey, includeUsage: true, supportsStructuredOutputs: true }).chatModel("bot"),
};
const out = {};
for (const [name, model] of Object.entries(models)) {
  const whole = await generateText({ model, system: "Be brief.", prompt: "Hello, café 😀" });
  const stream = streamText({ model, prompt: "And streamed?" });
  let deltas = 0, streamed = "";
  for await (const text of stream.textStream) [deltas, streamed] = [deltas + 1, streamed + text];
  const called = [];
  const tools = { weather: tool({
    description: "d", inputSchema: z.object({ city: z.string() }),
    execute: async (input) => { called.push(input.city); return "it rains"; },
  }) };
  const told = await generateText({ model, tools, stopWhen: stepCountIs(3), prompt: '/tool weather {"city":"Paris"}' });
  const { object } = await generateObject({ model, schema: z.object({ degrees: z.number() }), prompt: '/tool StructuredOutput {"degrees":21}' });
  out[name] = { object, text: whole.text, tokens: whole.usage.totalTokens, streamed, deltas, streamTokens: (await stream.usage).totalTokens, called, told: told.text };
}

console.log(JSON.stringify(out));
