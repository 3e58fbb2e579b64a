import { Octokit } from "@octokit/core";
import { throttling } from "@octokit/plugin-throttling";

const octokit = new (Octokit.plugin(throttling))({
  throttle: {
    onRateLimit: (seconds, options, _, retries) => retries === 0, // retry, but once only
    onSecondaryRateLimit: () => false,
  },
});
for (let i = 0; i < 4; i++) await octokit.request(`GET ${process.argv[2]}`);
