package main

// Run is the program for tests that need no process.
var Run = run

// Settings are the variables that the program reads.
type Settings = settings

// ContainerID exports containerID.
var ContainerID = containerID
