// Sends a number of requests at a steady rate.

const nap = 100; // milliseconds: how soon a stop is noticed

// run calls send() for each request when it is due, whether or not earlier ones are answered: a slow server must not
// slow the sender down, or there would be nothing to limit. It returns when all that were sent are answered.
export async function run({ count, rate, signal }, send) {
  const began = performance.now();
  const due = (n) => began + (n * 1000) / rate;
  const answers = [];

  while (answers.length < count && !signal.aborted) {
    const wait = due(answers.length) - performance.now();
    if (wait > 0) await sleep(Math.min(wait, nap));
    else answers.push(send());
  }
  return Promise.all(answers);
}

const sleep = (ms) => new Promise((wake) => setTimeout(wake, ms));
