// Prints each event of a run as one line of JSON: node client.mjs LIBRARY URL KEY MESSAGE
import { EventSource } from "eventsource";
import { createParser } from "eventsource-parser";

const [library, url, key, message] = process.argv.slice(2);
const request = {
  method: "POST",
  headers: { "x-api-key": key, "content-type": "application/json", accept: "text/event-stream" },
  body: JSON.stringify({ message }),
};
const print = (event, data) => console.log(JSON.stringify({ event, data: JSON.parse(data) }));

if (library === "eventsource") {
  const source = new EventSource(url, { fetch: (input, init) => fetch(input, { ...init, ...request }) });
  for (const name of ["system", "partial_message", "assistant", "tool_result", "result", "done"]) {
    source.addEventListener(name, (e) => {
      print(name, e.data);
      if (name === "done") source.close();
    });
  }
  source.addEventListener("error", (e) => {
    console.error(e.message);
    process.exit(1);
  });
} else {
  const response = await fetch(url, request);
  const parser = createParser({ onEvent: (e) => print(e.event, e.data) });
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) parser.feed(chunk);
}
