// SPDX-License-Identifier: Apache-2.0 OR MIT
const session = require('http2').connect(`https://${process.env.HOST}:8443`);
session.on('error', error => { console.error(error); process.exit(1); });
const stream = session.request({ ':path': '/' });
stream.on('data', data => process.stdout.write(data));
stream.on('error', error => { console.error(error); process.exit(1); });
stream.on('end', () => session.close());
