// A tool is one file. Its default export has the name, the schema of the input and the function.
export default defineTool({
  name: "word_count",
  description: "Counts the words of a text.",
  inputSchema: {
    type: "object",
    properties: { text: { type: "string" } },
    required: ["text"],
  },
  call(input: { text: unknown }, context) {
    // The input comes from a model: check it. An exception is a result that the model can correct.
    if (typeof input.text !== "string") throw new Error("text must be a string");
    context.log("counting");
    const words = input.text.split(/\s+/).filter(Boolean).length;
    return { words };
  },
});
