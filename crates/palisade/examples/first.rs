// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts a command in a sandbox, and prints its refusals and how it ended.

use palisade::{Error, Message, Sandbox, Stream};

fn main() -> Result<(), Error> {
    // Nothing of the home is visible, and only the named host can be reached.
    let sandbox = Sandbox::new().read("/usr/share").allow("registry.npmjs.org:443");

    let listing = sandbox.command("ls").arg("/").output()?;
    println!("a command sees {} directories", listing.stdout.split(|byte| *byte == b'\n').count() - 1);

    let script = "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit";
    let mut child = sandbox.command("sh").args(["-c", script]).stderr(Stream::null()).spawn()?;
    for message in child.messages() {
        if let Message::Event(event) = message {
            println!("{event}; to permit it: {}", event.hint.as_deref().unwrap_or("nothing"));
        }
    }
    println!("the second command has ended: {}", child.wait()?);
    Ok(())
}
