// Uses a runtime with the Agents SDK of OpenAI: node openai_agents.mjs URL KEY.
import { Agent, run, setDefaultOpenAIClient, setOpenAIAPI, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";

const [baseURL, apiKey] = process.argv.slice(2);
setTracingDisabled(true);
setDefaultOpenAIClient(new OpenAI({ baseURL, apiKey, maxRetries: 0 }));
const out = {};
for (const api of ["responses", "chat_completions"]) {
  setOpenAIAPI(api);
  const called = [];
  const weather = tool({
    name: "weather", description: "d", parameters: z.object({ city: z.string() }),
    execute: async (input) => { called.push(input.city); return "it rains"; },
  });
  const plain = await run(new Agent({ name: "helper", model: "bot", instructions: "Be brief." }), "Hello, café 😀");
  const agent = new Agent({ name: "helper", model: "bot", tools: [weather] }); // the demo model reads /tool at the beginning
  const told = await run(agent, '/tool weather {"city":"Paris"}');
  const stream = await run(agent, "And streamed?", { stream: true });
  let streamed = "";
  for await (const text of stream.toTextStream()) streamed += text;
  await stream.completed;
  out[api] = { text: plain.finalOutput, called, told: told.finalOutput, streamed };
}

console.log(JSON.stringify(out));
