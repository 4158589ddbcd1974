// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits for more than one future, without a crate of macros.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The results of both.
pub(crate) async fn both<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(move |context| {
        if first.is_none()
            && let Poll::Ready(result) = a.as_mut().poll(context)
        {
            first = Some(result);
        }
        if second.is_none()
            && let Poll::Ready(result) = b.as_mut().poll(context)
        {
            second = Some(result);
        }
        match (first.take(), second.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (first, second) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

/// The result that came first.
pub(crate) enum Either<A, B> {
    First(A),
    Second(B),
}

/// The result of the future that is done first.
pub(crate) async fn first<A: Future, B: Future>(a: A, b: B) -> Either<A::Output, B::Output> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    std::future::poll_fn(move |context| {
        if let Poll::Ready(result) = a.as_mut().poll(context) {
            return Poll::Ready(Either::First(result));
        }
        b.as_mut().poll(context).map(Either::Second)
    })
    .await
}

/// The result of a future that is done at once, or after the kernel was asked for new events. A caller that waits
/// longer sets a timer. If that timer ends before all others, it wakes the runtime, which costs a system call and a
/// turn of epoll.
pub(crate) async fn soon<F: Future + ?Sized>(mut future: Pin<&mut F>) -> Option<F::Output> {
    let mut poll = async || std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
    if let Poll::Ready(result) = poll().await {
        return Some(result);
    }
    tokio::task::yield_now().await;
    match poll().await {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

/// An attempt at something.
pub(crate) type Attempt<'a, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + 'a>>;

/// The first success of several attempts. Each begins when `apart` has passed since the one before it began, or at once
/// if no attempt is running any more; all keep running. The last failure if all fail; `None` if `within` passes, or
/// there are no attempts.
pub(crate) async fn staggered<'a, T, E>(
    attempts: impl IntoIterator<Item = Attempt<'a, T, E>>,
    apart: Duration,
    within: Duration,
) -> Result<T, Option<E>> {
    let mut waiting = attempts.into_iter();
    let end = Instant::now() + within;
    let mut begun: Vec<Attempt<'a, T, E>> = Vec::new();
    let mut failure = None;
    if let Some(mut attempt) = waiting.next() {
        match soon(attempt.as_mut()).await {
            Some(Ok(result)) => return Ok(result),
            Some(Err(error)) => failure = Some(error),
            None => begun.push(attempt),
        }
    }
    let until = if begun.is_empty() { Instant::now() } else { Instant::now() + apart };
    let mut next = Box::pin(sleep_until(until));
    let mut exhausted = false;
    let all = std::future::poll_fn(|context| {
        loop {
            let mut progress = false;
            if !exhausted && (begun.is_empty() || next.as_mut().poll(context).is_ready()) {
                match waiting.next() {
                    Some(attempt) => {
                        begun.push(attempt);
                        next.as_mut().reset(Instant::now() + apart);
                        progress = true;
                    }
                    None => exhausted = true,
                }
            }
            let mut index = 0;
            while let Some(attempt) = begun.get_mut(index) {
                match attempt.as_mut().poll(context) {
                    Poll::Ready(Ok(result)) => return Poll::Ready(Ok(result)),
                    Poll::Ready(Err(error)) => {
                        failure = Some(error);
                        drop(begun.swap_remove(index));
                        progress = true;
                        // The next attempt starts at once.
                        next.as_mut().reset(Instant::now());
                    }
                    Poll::Pending => index += 1,
                }
            }
            if begun.is_empty() && exhausted {
                return Poll::Ready(Err(failure.take()));
            }
            if !progress {
                return Poll::Pending;
            }
        }
    });
    tokio::time::timeout_at(end, all).await.unwrap_or(Err(None))
}
