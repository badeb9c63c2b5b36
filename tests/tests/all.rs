//! Black-box tests: real daemons, real programs, and clients that know nothing but the socket. One file a noun.

#![cfg(test)]

mod all {
    mod message;
    mod output;
    mod process;
    mod restart;
    mod spawn;
    mod stop;
    mod task;
}
