// The official Anthropic client against the server: what it parses, and what it throws.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { dialects, scripted, soon } from './support.mjs';

const ask = (script) => ({
  model: 'any', max_tokens: 500, messages: [{ role: 'user', content: `script:${script} please` }],
});
const tools = [{
  name: 'get_weather',
  input_schema: { type: 'object', properties: { city: { type: 'string' }, days: { type: 'integer' } } },
}];
const text = (message) => message.content.filter((block) => block.type === 'text').map((block) => block.text).join('');

for (const dialect of dialects) {
  describe(`anthropic, ${dialect}`, () => {
    let server, client;
    before(async () => {
      server = await scripted(dialect);
      client = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
    });
    after(() => server.close());

    test('calls of tools, whole and streamed', async () => {
      const whole = await client.messages.create({ ...ask('calls'), tools });
      assert.equal(whole.stop_reason, 'tool_use');
      const calls = whole.content.filter((block) => block.type === 'tool_use');
      assert.deepEqual(calls.map((call) => [call.name, call.input]),
        Array(2).fill(['get_weather', { city: 'Paris', days: 3 }]));
      const streamed = await client.messages.stream({ ...ask('calls'), tools }).finalMessage();
      assert.equal(streamed.stop_reason, 'tool_use');
      assert.deepEqual(streamed.content, whole.content.map((block, i) =>
        block.type === 'tool_use' ? { ...block, id: streamed.content[i].id } : block));
      const results = calls.map((call) => ({ type: 'tool_result', tool_use_id: call.id, content: 'mild' }));
      const next = await client.messages.create({
        ...ask('calls'), tools,
        messages: [...ask('calls').messages, { role: 'assistant', content: whole.content },
          { role: 'user', content: [...results, { type: 'text', text: 'script:plain' }] }],
      });
      assert.equal(text(next), 'Hello there');
    });

    test('thinking', async () => {
      const request = { ...ask('think'), max_tokens: 2000, thinking: { type: 'enabled', budget_tokens: 1024 } };
      const whole = await client.messages.create(request);
      assert.deepEqual(whole.content.map((block) => block.type), ['thinking', 'text']);
      const streamed = await client.messages.stream(request).finalMessage();
      assert.deepEqual(streamed.content, whole.content);
    });
  });
}

describe('anthropic', () => {
  let server, client;
  before(async () => {
    server = await scripted('hermes');
    client = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
  });
  after(() => server.close());

  test('plain answers and usage', async () => {
    const whole = await client.messages.create({ ...ask('unicode'), system: 'Be brief.' });
    assert.equal(text(whole), 'café \u{1F600} 日本');
    assert.equal(whole.usage.output_tokens, Buffer.byteLength(text(whole)));
    const { model, messages } = ask('unicode');
    const counted = await client.messages.countTokens({ model, system: 'Be brief.', messages });
    assert.equal(counted.input_tokens, whole.usage.input_tokens);
  });

  test('streamed answers', async () => {
    const stream = client.messages.stream(ask('plain'));
    let streamed = '';
    stream.on('text', (delta) => { streamed += delta; });
    const final = await stream.finalMessage();
    assert.equal(streamed, 'Hello there');
    assert.equal(text(final), 'Hello there');
    assert.equal(final.usage.output_tokens, 11);
  });

  test('how answers end', async () => {
    const stopped = await client.messages.create({ ...ask('stop'), stop_sequences: ['END'] });
    assert.equal(stopped.stop_reason, 'stop_sequence');
    assert.equal(stopped.stop_sequence, 'END');
    const cut = await client.messages.create({ ...ask('plain'), max_tokens: 3 });
    assert.equal(cut.stop_reason, 'max_tokens');
  });

  test('errors are its own', async (t) => {
    await assert.rejects(client.messages.create({ ...ask('plain'), temperature: 7 }), Anthropic.BadRequestError);
    await assert.rejects(client.messages.create({ ...ask('plain'), tools, tool_choice: { type: 'any' } }),
      Anthropic.BadRequestError);
    await assert.rejects(client.messages.create(
      { ...ask('plain'), messages: [{ role: 'user', content: 'long '.repeat(5000) }] }),
      (error) => error instanceof Anthropic.BadRequestError && /prompt is too long/.test(error.message));
    await assert.rejects(client.messages.create(ask('fail')), Anthropic.InternalServerError);
    await assert.rejects(client.messages.stream(ask('fail')).finalMessage(), Anthropic.APIError);
    const locked = await scripted('hermes', 'right');
    t.after(() => locked.close());
    const having = (apiKey) => new Anthropic({ baseURL: locked.url, apiKey, maxRetries: 0 });
    await assert.rejects(having('wrong').messages.create(ask('plain')), Anthropic.AuthenticationError);
    assert.equal(text(await having('right').messages.create(ask('plain'))), 'Hello there');
  });

  test('models', async () => {
    const models = [];
    for await (const model of client.models.list()) models.push(model.id);
    assert.deepEqual(models, ['scripted']);
  });

  test('an abort ends the answer', async () => {
    const before = await server.cancelled();
    const stream = client.messages.stream({ ...ask('endless'), max_tokens: 100000 });
    stream.on('text', () => stream.abort());
    await assert.rejects(stream.finalMessage(), Anthropic.APIUserAbortError);
    assert.ok(await soon(async () => (await server.cancelled()) === before + 1));
  });
});
