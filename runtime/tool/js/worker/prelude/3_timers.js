// Timers are in an array, the next one first. The host runs one due timer at a time, then the jobs that
// it queued.
const timers = [];
const timerOf = new Map();
let lastTimer = 0;

function inCall(what) {
  if (!calling) throw new Error(`${what} works only within call(), not while the file is loaded`);
}

function schedule(timer) {
  let low = 0;
  let high = timers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (timers[middle].at <= timer.at) low = middle + 1;
    else high = middle;
  }
  splice(timers, low, 0, timer);
}

function addTimer(fn, delay, args, repeats) {
  inCall(repeats ? "setInterval" : "setTimeout");
  if (typeof fn !== "function") throw new TypeError("the callback of a timer is not a function");
  const every = max(repeats ? 1 : 0, min(+delay || 0, 2147483647));
  const timer = { id: ++lastTimer, at: now() + every, fn, args, every: repeats ? every : -1 };
  mapSet(timerOf, timer.id, timer);
  schedule(timer);
  return timer.id;
}

function clearTimer(id) {
  const timer = mapGet(timerOf, id);
  if (!timer) return;
  mapDelete(timerOf, id);
  timer.fn = null;
}

// tick runs the first timer if it is due. It returns the milliseconds until the next one, or -1.
function tick() {
  while (timers.length && !timers[0].fn) splice(timers, 0, 1);
  if (!timers.length) return -1;
  const timer = timers[0];
  const wait = timer.at - now();
  if (wait > 0) return wait;
  splice(timers, 0, 1);
  const { fn, args } = timer;
  if (timer.every < 0) {
    mapDelete(timerOf, timer.id);
  } else {
    timer.at = now() + timer.every;
    schedule(timer);
  }
  try {
    apply(fn, undefined, args);
  } catch (error) {
    fail(error);
  }
  return 0;
}

const resolved = Promise.resolve();
expose({
  setTimeout: (fn, delay, ...args) => addTimer(fn, delay, args, false),
  setInterval: (fn, delay, ...args) => addTimer(fn, delay, args, true),
  clearTimeout: (id) => clearTimer(id),
  clearInterval: (id) => clearTimer(id),
  queueMicrotask: (fn) => {
    if (typeof fn !== "function") throw new TypeError("the callback of queueMicrotask is not a function");
    then(resolved, () => {
      try {
        fn();
      } catch (error) {
        fail(error);
      }
    });
  },
});
