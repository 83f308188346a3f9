package main

// Run is the program for tests that need no process.
var Run = run
