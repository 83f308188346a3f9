package hubcmd

// Settings are the variables that the program reads.
type Settings = settings

// ContainerID exports containerID.
var ContainerID = containerID
