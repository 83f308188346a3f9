// Uses a runtime with LangChain: node openai_langchain.mjs URL KEY.
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { z } from "zod";

const [baseURL, apiKey] = process.argv.slice(2);
const weather = tool(async () => "it rains", { name: "weather", description: "d", schema: z.object({ city: z.string() }) });
const out = {};
for (const useResponsesApi of [false, true]) {
  const model = new ChatOpenAI({ model: "bot", apiKey, useResponsesApi, maxRetries: 0, configuration: { baseURL } });
  const whole = await model.invoke("Hello, café 😀");
  let streamed = "", chunks = 0;
  for await (const chunk of await model.stream("And streamed?")) [streamed, chunks] = [streamed + chunk.text, chunks + 1];
  const asked = new HumanMessage('/tool weather {"city":"Paris"}');
  const bound = model.bindTools([weather]);
  const call = await bound.invoke([asked]);
  const [{ id, name, args }] = call.tool_calls;
  const output = new ToolMessage({ tool_call_id: id, name, content: await weather.invoke(args) });
  const told = await bound.invoke([asked, call, output]);
  out[useResponsesApi ? "responses" : "chat"] = {
    text: whole.text, tokens: whole.usage_metadata.total_tokens, streamed, chunks, called: [args.city], told: told.text,
  };
}

console.log(JSON.stringify(out));
