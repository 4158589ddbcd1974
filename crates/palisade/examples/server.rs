// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts commands from tokio tasks, as a server does that runs commands for its clients.

use palisade::{Error, Sandbox};

fn main() -> Result<(), Error> {
    let failed = |source| Error::System { action: "make a runtime", source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
    runtime.block_on(serve(Sandbox::new()))
}

async fn serve(sandbox: Sandbox) -> Result<(), Error> {
    for number in 0..3 {
        let mut command = sandbox.command("sh");
        command.args(["-c", &format!("exit {number}")]);
        let mut child = command.spawn_async().await?;
        println!("a request's command has ended: {}", child.wait_async().await?);
    }
    Ok(())
}
