tblock --version
tblock run --version
tblock -V
tblock run -V
