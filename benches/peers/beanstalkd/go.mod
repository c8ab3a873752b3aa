module beanstalkd

go 1.19
