// The official OpenAI client against the server: what it parses, and what it throws.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import OpenAI from 'openai';
import { dialects, scripted, soon } from './support.mjs';

const ask = (script) => ({ model: 'any', messages: [{ role: 'user', content: `script:${script} please` }] });
const tools = [{
  type: 'function',
  function: {
    name: 'get_weather',
    parameters: { type: 'object', properties: { city: { type: 'string' }, days: { type: 'integer' } } },
  },
}];

for (const dialect of dialects) {
  describe(`openai, ${dialect}`, () => {
    let server, client;
    before(async () => {
      server = await scripted(dialect);
      client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
    });
    after(() => server.close());

    test('calls of tools, whole and streamed', async () => {
      const whole = await client.chat.completions.create({ ...ask('calls'), tools });
      const { message, finish_reason } = whole.choices[0];
      assert.equal(finish_reason, 'tool_calls');
      const seen = message.tool_calls.map((call) =>
        [call.type, call.function.name, JSON.parse(call.function.arguments)]);
      assert.deepEqual(seen, Array(2).fill(['function', 'get_weather', { city: 'Paris', days: 3 }]));
      const stream = client.chat.completions.stream({ ...ask('calls'), tools });
      const final = await stream.finalChatCompletion();
      assert.equal(final.choices[0].finish_reason, 'tool_calls');
      assert.equal(final.choices[0].message.content, message.content);
      assert.deepEqual(final.choices[0].message.tool_calls.map((call) => call.function.arguments),
        message.tool_calls.map((call) => call.function.arguments));
    });

    test('the same through responses', async () => {
      const flat = [{ type: 'function', strict: false, ...tools[0].function }];
      const stream = client.responses.stream({ model: 'any', input: 'script:calls', tools: flat });
      const final = await stream.finalResponse();
      const calls = final.output.filter((item) => item.type === 'function_call');
      assert.deepEqual(calls.map((call) => JSON.parse(call.arguments)), Array(2).fill({ city: 'Paris', days: 3 }));
      assert.equal(final.status, 'completed');
    });

    test('reasoning is told apart', async () => {
      const whole = await client.chat.completions.create(ask('think'));
      assert.equal(whole.choices[0].message.content, 'Done');
      assert.equal(whole.choices[0].message.reasoning_content, 'hm');
      let content = '', reasoning = '';
      for await (const chunk of await client.chat.completions.create({ ...ask('think'), stream: true })) {
        content += chunk.choices[0].delta.content ?? '';
        reasoning += chunk.choices[0].delta.reasoning_content ?? '';
      }
      assert.deepEqual([content, reasoning], ['Done', 'hm']);
    });
  });
}

describe('openai', () => {
  let server, client;
  before(async () => {
    server = await scripted('hermes');
    client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
  });
  after(() => server.close());

  test('plain answers and usage', async () => {
    const whole = await client.chat.completions.create({ ...ask('plain'), n: 2 });
    assert.deepEqual(whole.choices.map((choice) => choice.message.content), ['Hello there', 'Hello there']);
    assert.equal(whole.usage.completion_tokens, 22);
    assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + 22);
  });

  test('streamed answers and usage', async () => {
    const stream = await client.chat.completions.create(
      { ...ask('unicode'), stream: true, stream_options: { include_usage: true } });
    let text = '', usage;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? '';
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, 'café \u{1F600} 日本');
    assert.equal(usage.completion_tokens, Buffer.byteLength(text));
  });

  test('stop strings, limits, logprobs', async () => {
    const stopped = await client.chat.completions.create(
      { ...ask('stop'), stop: ['END'], logprobs: true, top_logprobs: 2 });
    assert.equal(stopped.choices[0].message.content, 'one ');
    assert.equal(stopped.choices[0].logprobs.content.map((entry) => entry.token).join(''), 'one ');
    const cut = await client.chat.completions.create({ ...ask('plain'), max_completion_tokens: 3 });
    assert.equal(cut.choices[0].message.content, 'Hel');
    assert.equal(cut.choices[0].finish_reason, 'length');
  });

  test('completions, models', async () => {
    const text = await client.completions.create({ model: 'any', prompt: 'script:plain' });
    assert.equal(text.choices[0].text, 'Hello there');
    const models = [];
    for await (const model of client.models.list()) models.push(model.id);
    assert.deepEqual(models, ['scripted']);
    assert.equal((await client.models.retrieve('scripted')).object, 'model');
    await assert.rejects(client.models.retrieve('other'), OpenAI.NotFoundError);
  });

  test('responses', async () => {
    const whole = await client.responses.create({ model: 'any', input: 'script:plain', instructions: 'Be brief.' });
    assert.equal(whole.output_text, 'Hello there');
    const cut = await client.responses.create({ model: 'any', input: 'script:plain', max_output_tokens: 3 });
    assert.equal(cut.status, 'incomplete');
    await assert.rejects(client.responses.create({ model: 'any', input: 'x', previous_response_id: 'resp_1' }),
      OpenAI.BadRequestError);
  });

  test('errors are its own', async () => {
    const rejects = (body, check) => assert.rejects(client.chat.completions.create({ ...ask('plain'), ...body }),
      (error) => {
        assert.ok(error instanceof OpenAI.BadRequestError, error);
        check(error);
        return true;
      });
    await rejects({ temperature: 7 }, (error) => assert.equal(error.param, 'temperature'));
    await rejects({ response_format: { type: 'json_object' } },
      (error) => assert.equal(error.code, 'unsupported_value'));
    await rejects({ messages: [{ role: 'user', content: 'long '.repeat(5000) }] },
      (error) => assert.equal(error.code, 'context_length_exceeded'));
    await assert.rejects(client.embeddings.create({ model: 'any', input: 'x' }), OpenAI.BadRequestError);
    await assert.rejects(client.chat.completions.create(ask('fail')), OpenAI.InternalServerError);
    const stream = await client.chat.completions.create({ ...ask('fail'), stream: true });
    await assert.rejects(async () => { for await (const chunk of stream) void chunk; }, OpenAI.APIError);
  });

  test('a wrong key, a full queue', async (t) => {
    const locked = await scripted('hermes', 'right');
    t.after(() => locked.close());
    const having = (apiKey) => new OpenAI({ baseURL: `${locked.url}/v1`, apiKey, maxRetries: 0 });
    await assert.rejects(having('wrong').chat.completions.create(ask('plain')), OpenAI.AuthenticationError);
    const right = having('right');
    assert.equal((await right.chat.completions.create(ask('plain'))).choices[0].message.content, 'Hello there');
    const eight = await right.chat.completions.create({ ...ask('endless'), n: 8, stream: true });
    await assert.rejects(right.chat.completions.create(ask('plain')), (error) => {
      assert.ok(error instanceof OpenAI.RateLimitError, error);
      assert.ok(Number(error.headers.get('retry-after')) > 0);
      return true;
    });
    eight.controller.abort();
    assert.ok(await soon(async () => (await locked.cancelled()) === 8));
  });

  test('an abort ends the answer', async () => {
    const before = await server.cancelled();
    const stream = await client.chat.completions.create({ ...ask('endless'), stream: true });
    let n = 0;
    for await (const chunk of stream) {
      if (chunk.choices[0].delta.content && ++n === 5) break;
    }
    assert.ok(await soon(async () => (await server.cancelled()) === before + 1));
  });
});
