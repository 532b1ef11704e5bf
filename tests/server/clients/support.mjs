// Servers that the tests talk to.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

const dialects = ['hermes', 'qwen-xml', 'glm', 'deepseek', 'harmony', 'llama3'];

// The server over scripts, which asks for the keys given: { url, cancelled(), close() }. cancelled() gives the number
// of answers that were.
export async function scripted(dialect, ...keys) {
  const child = spawn(process.env.SCRIPTED_SERVER, [dialect, ...keys], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => (await lines.next()).value;
  const url = await next();
  return {
    url,
    async cancelled() {
      child.stdin.write('cancelled\n');
      return Number(await next());
    },
    close: () => new Promise((done) => { child.on('exit', done); child.stdin.end(); }),
  };
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
