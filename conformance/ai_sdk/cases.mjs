// What programs do with the Vercel AI SDK, and what must come of it.
// usage: node cases.mjs GATEWAY; it writes one outcome for each provider and case, as JSON.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, isStepCount, Output, streamObject, streamText, tool } from "ai";
import assert from "node:assert/strict";
import { z } from "zod";

const gateway = process.argv[2];
const key = { apiKey: "any" };
const openai = createOpenAI({ ...key, baseURL: `${gateway}/v1` });
const PROVIDERS = {
  "@ai-sdk/openai": openai.responses("gpt-5"),
  "@ai-sdk/openai, chat": openai.chat("gpt-5"),
  "@ai-sdk/anthropic": createAnthropic({ ...key, baseURL: `${gateway}/v1` })("claude-sonnet-4-5"),
  "@ai-sdk/google": createGoogleGenerativeAI({ ...key, baseURL: `${gateway}/v1beta` })("gemini-2.5-pro"),
  "@ai-sdk/openai-compatible": createOpenAICompatible({
    ...key,
    name: "toolwire",
    baseURL: `${gateway}/v1`,
    includeUsage: true,
    supportsStructuredOutputs: true,
  })("gpt-4.1"),
};

// How each provider is asked to show its thoughts; the option of the SDK asks for the effort alone.
const THINKING = {
  openai: { reasoningEffort: "medium", reasoningSummary: "auto" },
  anthropic: { thinking: { type: "enabled", budgetTokens: 2000 } },
  google: { thinkingConfig: { includeThoughts: true, thinkingBudget: 2000 } },
  toolwire: { reasoningEffort: "medium" },
};
const IMAGE =
  "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC";
const WEATHER = z.object({ city: z.string(), degrees: z.number() });

const weather = tool({
  description: "Get the weather of a city",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `25 degrees in ${city}`,
});
const clock = tool({
  description: "Get the time now",
  inputSchema: z.object({}),
  execute: async () => "It is noon",
});
const camera = tool({
  description: "Take a picture with the camera",
  inputSchema: z.object({}),
  execute: async () => IMAGE,
  toModelOutput: ({ output }) => ({
    type: "content",
    value: [{ type: "file", mediaType: "image/png", data: { type: "data", data: output } }],
  }),
});
const loop = { stopWhen: isStepCount(4) };

function right(result, cities) {
  const calls = result.steps.flatMap((step) => step.toolCalls);
  assert.deepEqual(calls.map((call) => call.input.city).sort(), cities);
  for (const city of cities) assert.match(result.text, new RegExp(`25 degrees in ${city}`));
}

async function text(stream) {
  let whole = "";
  for await (const piece of stream) whole += piece;
  return whole;
}

async function failure(promise) {
  try {
    await promise;
  } catch (error) {
    return error.lastError ?? error;
  }
  assert.fail("no error was raised");
}

const CASES = {
  async text(ask) {
    const result = await generateText(ask({ prompt: "Say hello to the world." }));
    assert.match(result.text, /hello to the world/);
    assert.equal(result.finishReason, "stop");
    assert.ok(result.usage.inputTokens > 0 && result.usage.outputTokens > 0, "no usage");
  },
  async stream(ask) {
    const result = streamText(ask({ prompt: "Say hello to the world." }));
    assert.match(await text(result.textStream), /hello to the world/);
    assert.equal(await result.finishReason, "stop");
    assert.ok((await result.usage).outputTokens > 0, "no usage");
  },
  async tools(ask) {
    right(await generateText(ask({ prompt: "What is the weather in Tokyo?", tools: { weather }, ...loop })), ["Tokyo"]);
  },
  async "streamed tools"(ask) {
    const result = streamText(ask({ prompt: "What is the weather in Tokyo?", tools: { weather }, ...loop }));
    await result.consumeStream();
    right({ steps: await result.steps, text: await result.text }, ["Tokyo"]);
  },
  async "parallel tools"(ask) {
    const prompt = "What is the weather in Paris and in Tokyo?";
    right(await generateText(ask({ prompt, tools: { weather }, ...loop })), ["Paris", "Tokyo"]);
  },
  async "forced tool"(ask) {
    const toolChoice = { type: "tool", toolName: "weather" };
    const result = await generateText(ask({ prompt: "Go.", tools: { clock, weather }, toolChoice }));
    assert.deepEqual(result.toolCalls.map((call) => call.toolName), ["weather"]);
  },
  async "no arguments"(ask) {
    const result = await generateText(ask({ prompt: "What is the time?", tools: { clock }, ...loop }));
    assert.deepEqual(result.steps[0].toolCalls.map((call) => call.input), [{}]);
    assert.match(result.text, /It is noon/);
  },
  async generateObject(ask) {
    const result = await generateObject(ask({ prompt: "The weather, please.", schema: WEATHER }));
    WEATHER.parse(result.object);
  },
  async streamObject(ask) {
    const result = streamObject(ask({ prompt: "The weather, please.", schema: WEATHER }));
    for await (const part of result.partialObjectStream) assert.equal(typeof part, "object");
    WEATHER.parse(await result.object);
  },
  async "output and tools"(ask) {
    const output = Output.object({ schema: WEATHER });
    const prompt = "What is the weather in Oslo?";
    const result = await generateText(ask({ prompt, tools: { weather }, output, ...loop }));
    assert.deepEqual(result.steps[0].toolCalls.map((call) => call.input), [{ city: "Oslo" }]);
    WEATHER.parse(result.output);
  },
  async image(ask) {
    const image = { type: "file", mediaType: "image/png", data: IMAGE };
    const content = [{ type: "text", text: "Describe this." }, image];
    const result = await generateText(ask({ messages: [{ role: "user", content }] }));
    assert.match(result.text, /I see 1 image/);
  },
  async "image as result"(ask) {
    const result = await generateText(ask({ prompt: "Take a picture.", tools: { camera }, ...loop }));
    assert.equal(result.steps[0].toolCalls.length, 1);
    assert.match(result.text, /an image|I see 1 image/);
  },
  async thinking(ask) {
    const result = await generateText(ask({ prompt: "What is the weather in Tokyo?", tools: { weather }, ...loop, providerOptions: THINKING }));
    right(result, ["Tokyo"]);
    assert.match(result.steps[0].reasoningText ?? "", /The question is easy/);
  },
  async "two turns"(ask) {
    const tools = { weather };
    const first = [{ role: "user", content: "What is the weather in Tokyo?" }];
    const before = await generateText(ask({ messages: first, tools, ...loop, providerOptions: THINKING }));
    const said = before.responseMessages ?? before.response.messages;
    const messages = [...first, ...said, { role: "user", content: "And the weather in Oslo?" }];
    right(await generateText(ask({ messages, tools, ...loop, providerOptions: THINKING })), ["Oslo"]);
  },
  async "error 429"(ask) {
    const error = await failure(generateText(ask({ prompt: "Please fail with 429." })));
    assert.equal(error.statusCode, 429);
    assert.match(error.message, /as the prompt asks/);
    assert.equal(error.isRetryable, true);
  },
  async "error 400"(ask) {
    const error = await failure(generateText(ask({ prompt: "Please fail with 400." })));
    assert.equal(error.statusCode, 400);
    assert.match(error.message, /as the prompt asks/);
  },
  async "broken stream"(ask) {
    const errors = [];
    const onError = ({ error }) => errors.push(error);
    const result = streamText(ask({ prompt: "Please break off.", onError }));
    await text(result.textStream).catch((error) => errors.push(error));
    assert.ok(errors.length > 0, "the stream ended as if it were whole");
  },
};

const outcomes = [];
for (const [provider, model] of Object.entries(PROVIDERS)) {
  for (const [name, run] of Object.entries(CASES)) {
    const ask = (settings) => ({ model, maxRetries: 0, abortSignal: AbortSignal.timeout(20_000), ...settings });
    try {
      await run(ask);
      outcomes.push({ provider, case: name, detail: "" });
    } catch (error) {
      outcomes.push({ provider, case: name, detail: `${error.name}: ${error.message}` });
    }
  }
}
console.log(JSON.stringify(outcomes));
