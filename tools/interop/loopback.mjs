// Preloaded into the servers: those that would listen on all addresses listen on loopback.
import net from "node:net";

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (...args) {
  if (typeof args[0] === "object" && args[0]?.port !== undefined) args[0].host = "127.0.0.1";
  else if (Number.isInteger(Number(args[0])) && typeof args[1] !== "string") args.splice(1, 0, "127.0.0.1");
  return listen.apply(this, args);
};
