// An OpenID provider on a free port of the loopback interface, for the hub whose address is the argument.
import http from 'node:http';
import Provider from 'oidc-provider';

const hub = process.argv[2];
const server = http.createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{
      client_id: 'hub',
      client_secret: 'the secret of the hub + &%',
      redirect_uris: [`${hub}/auth/callback/acme`, `${hub}/auth/callback/evil`],
      post_logout_redirect_uris: [],
      backchannel_logout_uri: `${hub}/auth/backchannel-logout`,
      backchannel_logout_session_required: true,
    }],
    claims: { openid: ['sub'], profile: ['name', 'preferred_username'], email: ['email'] },
    cookies: { keys: ['a key for the tests'] },
    features: { backchannelLogout: { enabled: true } },
    fetch: (url, options) => globalThis.fetch(url, { ...options, dispatcher: undefined }), // the hub is on a loopback address
    findAccount: (ctx, id) => ({
      accountId: id,
      claims: () => ({ sub: id, preferred_username: id, name: `${id} of the provider`, email: `${id}@example.com` }),
    }),
    pkce: { required: () => true },
  });
  provider.on('backchannel.error', (ctx, err) => console.error('backchannel', err.message, err.cause?.message));
  provider.on('server_error', (ctx, err) => console.error('server', err));
  server.on('request', provider.callback());
  console.log(issuer);
});
process.stdin.resume();
process.stdin.on('end', () => process.exit(0)); // with the test
