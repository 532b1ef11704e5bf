// Servers that the tests talk to.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

const dialects = ['hermes', 'qwen-xml', 'glm', 'deepseek', 'harmony', 'llama3'];

// A child process, its standard output by lines, and a promise of its end.
function start(file, args) {
  const child = spawn(file, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = new Promise((done) => { child.on('exit', done); });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return { child, ended, next: async () => (await lines.next()).value };
}

// The server over scripts, which asks for the keys given: { url, cancelled(), close() }. cancelled() gives the number
// of answers that were.
export async function scripted(dialect, ...keys) {
  const { child, ended, next } = start(process.env.SCRIPTED_SERVER, [dialect, ...keys]);
  const url = await next();
  return {
    url,
    async cancelled() {
      child.stdin.write('cancelled\n');
      return Number(await next());
    },
    close: () => { child.stdin.end(); return ended; },
  };
}

// strata serve with these arguments, once its model is loaded: { url, close() }. close() gives its exit status.
export async function program(...args) {
  const { child, ended, next } = start(process.env.STRATA_PROGRAM, ['serve', ...args, '--port=0']);
  let url;
  for (let line = await next(); !line?.includes(' is ready'); line = await next()) {
    if (line === undefined) throw new Error('strata serve ended before it was ready');
    url ??= /http:\S+/.exec(line)?.[0];
  }
  return { url, close: () => { child.kill('SIGTERM'); return ended; } };
}

export { dialects };

// Waits until the condition holds, for half a minute at most.
export async function soon(condition) {
  for (let i = 0; i < 3000; i++) {
    if (await condition()) return true;
    await new Promise((done) => setTimeout(done, 10));
  }
  return false;
}
