// console and context.log: the host writes the lines to its log and limits their number.
let lines = 0;

function inspect(value) {
  try {
    if (typeof value === "string") return value;
    if (typeof value === "object" && value !== null) {
      if (value instanceof Error) return `${value.name}: ${value.message}`;
      const text = stringify(value);
      if (text !== undefined) return text;
    }
    return Text(value);
  } catch {
    return "something that has no text";
  }
}

function log(level, args) {
  if (lines++ > 100) return;
  let text = "";
  for (let i = 0; i < args.length && text.length < 4096; i++) text += (i ? " " : "") + slice(inspect(args[i]), 0, 4096);
  host("log", level, slice(text, 0, 4096));
}

const consoleOf = {};
for (const level of ["debug", "log", "info", "warn", "error", "trace"]) consoleOf[level] = (...args) => log(level, args);
expose({ console: consoleOf });
