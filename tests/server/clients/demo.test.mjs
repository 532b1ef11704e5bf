// The official clients against the program itself with the demo model: what holds whatever a model says.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { program, soon } from './support.mjs';

const key = 'right';
const messages = [{ role: 'user', content: 'Tell me of a dog and a cat.' }];
const ask = { model: 'any', messages, max_tokens: 40, temperature: 0 };
const text = (message) => message.content.filter((block) => block.type === 'text').map((block) => block.text).join('');

let served, openai, anthropic;
before(async () => {
  served = await program(process.env.STRATA_MODEL, `--api-key=${key}`, '--deterministic', '--parallel=2');
  openai = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: key, maxRetries: 0 });
  anthropic = new Anthropic({ baseURL: served.url, apiKey: key, maxRetries: 0 });
});
after(() => served?.close());

const n_busy = async () => {
  const slots = await (await fetch(`${served.url}/slots`, { headers: { 'x-api-key': key } })).json();
  return slots.filter((slot) => slot.is_processing).length;
};

test('an answer is the same whole, streamed, and through every endpoint', async () => {
  const whole = await openai.chat.completions.create(ask);
  const { content } = whole.choices[0].message;
  assert.ok(content.length > 0);
  assert.ok(whole.usage.completion_tokens > 0 && whole.usage.completion_tokens <= 40);
  const stream = openai.chat.completions.stream({ ...ask, stream_options: { include_usage: true } });
  const final = await stream.finalChatCompletion();
  assert.equal(final.choices[0].message.content, content);
  assert.equal(final.choices[0].finish_reason, whole.choices[0].finish_reason);
  assert.deepEqual([final.usage.prompt_tokens, final.usage.completion_tokens],
    [whole.usage.prompt_tokens, whole.usage.completion_tokens]);
  const response = await openai.responses.stream(
    { model: 'any', input: messages, max_output_tokens: 40, temperature: 0 }).finalResponse();
  const said = response.output.find((item) => item.type === 'message').content;
  assert.deepEqual(said.map((part) => part.text), [content]);
  assert.equal(text(await anthropic.messages.create(ask)), content);
  const message = await anthropic.messages.stream(ask).finalMessage();
  assert.equal(text(message), content);
  assert.equal(message.usage.output_tokens, whole.usage.completion_tokens);
  const counted = await anthropic.messages.countTokens({ model: 'any', messages });
  assert.equal(counted.input_tokens, message.usage.input_tokens);
  assert.equal(counted.input_tokens, whole.usage.prompt_tokens);
});

test('stop strings and log-probabilities', async () => {
  const whole = await openai.chat.completions.create({ ...ask, logprobs: true, top_logprobs: 3 });
  const { message, logprobs } = whole.choices[0];
  assert.equal(logprobs.content.map((entry) => entry.token).join(''), message.content);
  // At temperature 0 the most probable token is the chosen one.
  for (const entry of logprobs.content) assert.equal(entry.top_logprobs[0].token, entry.token);
  const stop = message.content.slice(10, 14);
  const expected = message.content.slice(0, message.content.indexOf(stop));
  const cut = await openai.chat.completions.create({ ...ask, stop });
  assert.equal(cut.choices[0].message.content, expected);
  assert.equal(cut.choices[0].finish_reason, 'stop');
  const stopped = await anthropic.messages.create({ ...ask, stop_sequences: [stop] });
  assert.deepEqual([text(stopped), stopped.stop_reason, stopped.stop_sequence], [expected, 'stop_sequence', stop]);
});

test('seeds, several answers, plain texts, tools', async () => {
  const seeded = { ...ask, temperature: 1, seed: 7, n: 2 };
  const contents = async () => (await openai.chat.completions.create(seeded)).choices.map((c) => c.message.content);
  const first = await contents();
  assert.equal(first.length, 2);
  assert.notEqual(first[0], first[1]);
  assert.deepEqual(await contents(), first);
  const plain = await openai.completions.create(
    { model: 'any', prompt: 'Once upon a time', max_tokens: 8, temperature: 0 });
  assert.equal(plain.usage.completion_tokens, 8);
  const tools = [{ type: 'function', function: { name: 'get_weather', parameters: { type: 'object' } } }];
  const offered = await openai.chat.completions.create({ ...ask, tools });
  assert.ok(offered.usage.prompt_tokens > 40, 'the model is told of the tools');
});

test('errors are typed', async () => {
  const stranger = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: 'wrong', maxRetries: 0 });
  await assert.rejects(stranger.chat.completions.create(ask), OpenAI.AuthenticationError);
  await assert.rejects(new Anthropic({ baseURL: served.url, apiKey: 'wrong', maxRetries: 0 }).messages.create(ask),
    Anthropic.AuthenticationError);
  const long = { ...ask, messages: [{ role: 'user', content: 'long '.repeat(20000) }] };
  await assert.rejects(openai.chat.completions.create(long),
    (error) => error instanceof OpenAI.BadRequestError && error.code === 'context_length_exceeded');
  await assert.rejects(anthropic.messages.create(long), Anthropic.BadRequestError);
  await assert.rejects(openai.models.retrieve('other'), OpenAI.NotFoundError);
});

test('an abort frees the slot', async () => {
  const endless = { model: 'any', prompt: 'Once', max_tokens: 100000, temperature: 1, stream: true };
  for (let i = 0; i < 4; i++) {  // twice as many as there are slots
    const stream = await openai.completions.create(endless);
    for await (const chunk of stream) {
      if (chunk.choices[0]?.text) break;
    }
  }
  assert.ok(await soon(async () => (await n_busy()) === 0));
  const stream = anthropic.messages.stream({ ...ask, max_tokens: 100000, temperature: 1 });
  stream.on('text', () => stream.abort());
  await assert.rejects(stream.finalMessage(), Anthropic.APIUserAbortError);
  assert.ok(await soon(async () => (await n_busy()) === 0));
  assert.equal((await openai.chat.completions.create({ ...ask, max_tokens: 3 })).usage.completion_tokens, 3);
});
