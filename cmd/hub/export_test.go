package main

// Run is what tests reach beside the command line.
var Run = run
